# Use a wheel in an empty environment, outside of the repository: use_wheel.sh PYTHON WHEEL
set -eu
wheel=$(realpath "$2")
smoke=$(realpath "$(dirname "$0")/smoke.py")
demo=$(realpath "$(dirname "$0")/../../../examples/demo.py")
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
unset PYTHONPATH
"$1" -m venv "$away/venv"
"$away/venv/bin/python" -m pip install --quiet "$wheel[plot]"
cp "$smoke" "$demo" "$away"
cd "$away"
venv/bin/python smoke.py
venv/bin/python demo.py
test -s epsilon_curve.png

# Run tests with the oldest or the newest supported versions of all dependencies, or with
# pre-releases, in an environment of their own: with_versions.sh PYTHON oldest TESTS...
set -eu
python=$1
versions=$2
shift 2
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
"$python" -m venv "$away/venv"
pip="$away/venv/bin/python -m pip install --quiet --only-binary :all:"
case $versions in
oldest)
  "$python" tests/package/distribution/lower_bounds.py test > "$away/pins"
  if "$away/venv/bin/python" -c "import sys; sys.exit(sys.version_info >= (3, 13))"; then
    $pip --requirement "$away/pins"
  else # some of these have no wheels for it: the oldest that have
    "$python" tests/package/distribution/lower_bounds.py --ranges test > "$away/ranges"
    $pip uv
    "$away/venv/bin/python" -m uv pip install --quiet --only-binary :all: \
      --python "$away/venv/bin/python" --resolution lowest-direct --requirement "$away/ranges"
  fi
  ;;
newest)
  "$python" tests/package/distribution/lower_bounds.py --ranges test > "$away/ranges"
  $pip --requirement "$away/ranges"
  ;;
prereleases)
  "$python" tests/package/distribution/lower_bounds.py --ranges test > "$away/ranges"
  if ! $pip --pre --requirement "$away/ranges"; then
    echo "SKIPPED: pre-releases of the dependencies cannot be installed together." >&2
    exit 0
  fi
  ;;
*)
  echo "oldest, newest or prereleases, not $versions" >&2
  exit 2
  ;;
esac
$pip --no-deps --editable .
"$away/venv/bin/python" -m pip list | grep -iE "numpy|scipy|scikit-learn|cvxpy|randomgen|pandas|pyarrow"
OMP_NUM_THREADS=1 "$away/venv/bin/python" -m pytest -q -n 2 --dist worksteal --disable-warnings -p no:cacheprovider "$@"

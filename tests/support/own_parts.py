"""The law and the ball of somebody else, as the pages on such parts define them."""

from pathlib import Path

_PAGES = Path(__file__).parents[2] / "docs" / "development"
for _page in ("add_a_law.md", "add_a_ball.md"):
    _code = (_PAGES / _page).read_text(encoding="utf-8").split("```")[1]
    exec(_code.removeprefix("python"))

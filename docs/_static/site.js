// A box whose content is wider than itself can be reached and scrolled with the keyboard.
function reach() {
  for (const box of document.querySelectorAll("pre, p:has(math), div.math, .table-wrapper, .output")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", reach);
addEventListener("resize", reach);

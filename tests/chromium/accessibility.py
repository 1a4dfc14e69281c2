"""Check a page for what WCAG AA asks of its structure and colours: names, headings, labels, landmarks, contrast."""

from __future__ import annotations

import itertools
from typing import Any

from selenium.webdriver import Chrome

_NAMED = {"button", "link", "textbox", "checkbox", "combobox", "searchbox", "img", "region", "navigation", "table"}
_CONTRAST = """
const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
  return { rgb: [r, g, b], a };
};
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour.a > 0) return colour.rgb;
  }
  return [255, 255, 255];
};
const problems = [];
for (const style of document.querySelectorAll("*")) style.getAnimations().forEach((one) => one.finish());
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || element.closest("script, option, .unseen, .skip, :disabled")) continue;
  if (!element.checkVisibility()) continue;
  const style = getComputedStyle(element);
  const [a, b] = [luminance(parse(style.color).rgb), luminance(ground(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  if (ratio < (large ? 3 : 4.5)) {
    problems.push(`contrast ${ratio.toFixed(2)}: ${element.className} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
}
return problems;
"""


def find_problems(page: Chrome) -> list[str]:
    """Everything that does not hold, in words."""
    problems = list(page.execute_script(_CONTRAST))
    levels = [int(name[1]) for name in page.execute_script(_HEADINGS)]
    if levels[:1] != [1] or levels.count(1) != 1:
        problems.append(f"headings begin with one h1: {levels}")
    problems += [f"a heading is skipped: {levels}" for one, two in itertools.pairwise(levels) if two > one + 1]
    if not page.title or page.execute_script("return document.documentElement.lang") != "en":
        problems.append("the page needs a title and a language")
    nodes: list[dict[str, Any]] = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = [node.get("role", {}).get("value") for node in nodes if not node.get("ignored")]
    problems += [f"no landmark {role}" for role in ("main", "banner", "navigation", "contentinfo") if role not in roles]
    for node in nodes:
        role = node.get("role", {}).get("value")
        if not node.get("ignored") and role in _NAMED and not node.get("name", {}).get("value") and role != "table":
            problems.append(f"no name: {role} {node.get('backendDOMNodeId')}")
    ids = page.execute_script("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
    problems += [f"the id {one} exists twice" for one in set(ids) if ids.count(one) > 1]
    return problems


_HEADINGS = "return [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => one.localName)"

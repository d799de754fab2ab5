#!/usr/bin/env bash
# The lab's report in a headless Chromium, light and dark, 320 to 2560 pixels wide, and printed. Only elements that scroll are
# wider than the page, no two texts of a picture overlap, every picture and table has its command, and the page fetches
# nothing. Each command on the page is run as it stands and gives the same tables and pictures. SCREENSHOTS=DIR keeps pictures.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
here=() there=()

"$wharf" lab run all --report "$out/report" >"$out/all" || die "no report"
page=$out/report/report.html
grep -Eq '(src|href)="https?:' "$page" && die "the page fetches something"

# Runs every command once; the page holds nothing else.
grep -o '<figcaption>[^<]*<code>[^<]*</code>' "$page" | sed 's/.*<code>//; s/<.code>//; s/ --report DIR$//; s/&quot;/"/g; s/&amp;/\&/g' | sort -u >"$out/commands"
: >"$out/lines"
while read -r -a words; do
  [ "${words[0]} ${words[1]} ${words[2]}" = "wharf lab run" ] || die "no command: ${words[*]}"
  "$wharf" "${words[@]:1}" --report "$out/again" >"$out/one" || die "fails: ${words[*]}"
  grep -h '<td' "$out/again/report.html" | grep -v '^<div class="wide"><table><tr><th scope="row">command' >>"$out/lines"
done <"$out/commands"
grep '<td' "$page" | grep -v '^<div class="wide"><table><tr><th scope="row">command' >"$out/wanted"
cmp -s <(sort -u "$out/lines") <(sort -u "$out/wanted") ||
  die "other figures: $(diff <(sort -u "$out/lines") <(sort -u "$out/wanted") | sed -n 2p | cut -c1-200)"
for picture in "$out"/report/*.svg; do
  cmp "$picture" "$out/again/${picture##*/}" || die "another picture: ${picture##*/}"
done
echo "$(wc -l <"$out/commands") commands give all $(wc -l <"$out/wanted") lines of tables and $(ls "$out"/report/*.svg | wc -l) pictures"

# The browser measures the page and reports in the page's title.
probe='<script>addEventListener("load", () => {
  const wrong = [], root = document.documentElement;
  if (root.scrollWidth > innerWidth + 1) wrong.push("wider than the page: " + root.scrollWidth);
  for (const picture of document.querySelectorAll("svg")) {
    const texts = [...picture.querySelectorAll("text")].map(text => [text, text.getBoundingClientRect()]);
    if (!picture.querySelector(":scope > title")?.textContent) wrong.push("a picture without a title");
    texts.forEach(([one, a], at) => texts.slice(at + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > a.height / 2) wrong.push(one.textContent.trim() + " on " + other.textContent.trim());
    }));
  }
  for (const figure of document.querySelectorAll("figure"))
    if (!/wharf lab run/.test(figure.textContent)) wrong.push("no command: " + figure.textContent.slice(0, 60));
  if (document.querySelector("th:not([scope])")) wrong.push("a head of nothing");
  if (location.hash === "#print") {
    const printed = [...document.styleSheets[0].cssRules].filter(rule => rule.media?.mediaText === "print").flatMap(rule => [...rule.cssRules]);
    document.head.append(Object.assign(document.createElement("style"), {textContent: printed.map(rule => rule.cssText).join(" ")}));
    for (const table of document.querySelectorAll("figure .wide"))
      if (table.scrollWidth > table.clientWidth + 1) wrong.push("cut off on paper: " + table.textContent.slice(0, 60));
  }
  const colours = getComputedStyle(document.body);
  document.title = "measured " + document.querySelectorAll("svg").length + " pictures, " + innerWidth + " pixels, " + colours.color + " on " + colours.backgroundColor
    + ", wrong: " + (wrong.slice(0, 5).join("; ") || "none");
});</script>'
sed "s|</body>|$(tr '\n' ' ' <<<"$probe" | sed 's/[&|\\]/\\&/g')</body>|" "$page" >"$out/probed.html"

for theme in 1 0; do
  # The last is the width of a sheet of A4.
  for frame in 2560 1280 400 320 718#print; do
    width=${frame%#*} hash=${frame#"${frame%#*}"}
    # In a frame, since a window is 500 pixels wide at least.
    echo "<iframe style='border:0;width:${width}px;height:6000px' src=probed.html$hash onload='document.title=this.contentDocument.title'></iframe>" >"$out/frame.html"
    # Chromium wants a sandbox of its own that root cannot have.
    within 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$out/browser" --allow-file-access-from-files \
      --blink-settings=preferredColorScheme=$theme --dump-dom "file://$out/frame.html" >"$out/dom" 2>"$out/dom.err" ||
      die "chromium: $(tail -n 1 "$out/dom.err")"
    title=$(sed -n 's|.*<title>\(measured.*\)</title>.*|\1|p' "$out/dom")
    if [ -n "${SCREENSHOTS:-}" ]; then
      mkdir -p "$SCREENSHOTS"
      within 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$out/browser" --hide-scrollbars \
        --blink-settings=preferredColorScheme=$theme --window-size="$width,6000" --screenshot="$SCREENSHOTS/$width-$theme.png" \
        --allow-file-access-from-files "file://$out/frame.html" >"$out/shot" 2>&1 || die "chromium: $(tail -n 1 "$out/shot")"
    fi
    case $title in
      *", $width pixels, "*", wrong: none") echo "${title%, wrong: none}" ;;
      *) die "theme $theme, $width pixels: ${title:-not measured}" ;;
    esac
  done
done

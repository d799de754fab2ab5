#!/usr/bin/env bash
# The pages of the lab, the planner and of runs in a headless Chromium, light and dark, 320 to 2560 pixels wide, and printed. Only
# elements that scroll are wider than the page, no two texts of a picture overlap, text of a picture is at least 9 pixels high on a
# telephone, every picture and table has its command, and no page fetches anything. Each command on the lab's page is run as it
# stands and gives the same tables and pictures. SCREENSHOTS=DIR keeps pictures.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
needs=(-p wharf-lab-cli --bin wharf-lab)
. tests/rig.sh
here=() there=()

"$wharf" lab run all --report "$out/lab" >"$out/all" || die "no report"
"$wharf" plan --report "$out/plan" >"$out/planned" || die "no plan"
within 60 "$wharf" send --imix --seconds 2 --to wire:rate=50mbit --qdisc prio:limit=100 --when-full drop-tail --priority-rate 100pps \
  --report "$out/send" >"$out/sent" || die "no page of send"
within 60 "$wharf" forward "pcap:$sample" "pcap:$out/copy.pcap" --rate 5mbit --qdisc prio --report "$out/forward" >"$out/forwarded" || die "no page of forward"
mv "$out/plan/plan.html" "$out/plan/report.html"
pages=(lab plan send forward)
for page in "${pages[@]}"; do
  [ -s "$out/$page/report.html" ] || die "no page of $page"
  grep -Eq '<(script|link|img|iframe)|src=|url\(|@import' "$out/$page/report.html" && die "the page of $page fetches something"
done
page=$out/lab/report.html
[ "$(wc -l <"$out/all")" -lt 60 ] && tail -n 1 "$out/all" | grep -q "^written: $page$" || die "no summary: $(tail -n 1 "$out/all")"
[ "$(cat "$out"/lab/* | wc -c)" -lt 1600000 ] || die "the report is larger than 1.6 MB"

# Runs every command once; the page holds nothing else.
grep -o '<figcaption>.*</figcaption>' "$page" | sed 's/.*<code>//; s/<.code>.*//; s/ --report DIR$//; s/&quot;/"/g; s/&amp;/\&/g' | sort -u >"$out/commands"
tables() { grep -h '<td' "$@" | grep -v 'scope="row">command\|class="score"' | sort -u; }
again() {
  read -r -a words <<<"$1"
  [ "${words[0]} ${words[1]} ${words[2]}" = "wharf lab run" ] || { echo "no command: $1"; return 1; }
  "$wharf" "${words[@]:1}" --report "$out/again-${words[3]}" >"$out/one-${words[3]}" || { echo "fails: $1"; return 1; }
}
export -f again
export wharf out
xargs -d '\n' -P 2 -I '{}' bash -c 'again "$1"' - '{}' <"$out/commands" >"$out/failed" || die "$(cat "$out/failed")"
tables "$out"/again-*/report.html >"$out/lines"
tables "$page" >"$out/wanted"
cmp -s "$out/lines" "$out/wanted" || die "other figures: $(diff "$out/lines" "$out/wanted" | sed -n 2p | cut -c1-200)"
for picture in "$out"/lab/*.svg; do
  cmp "$picture" "$out"/again-*/"${picture##*/}" || die "another picture: ${picture##*/}"
done
echo "$(wc -l <"$out/commands") commands give all $(wc -l <"$out/wanted") lines of tables and $(ls "$out"/lab/*.svg | wc -l) pictures"

# The browser measures a page and reports in the page's title.
probe='<script>addEventListener("load", () => {
  const wrong = [], root = document.documentElement;
  if (root.scrollWidth > innerWidth + 1) wrong.push("wider than the page: " + root.scrollWidth);
  for (const picture of document.querySelectorAll("svg")) {
    const texts = [...picture.querySelectorAll("text")].map(text => [text, text.getBoundingClientRect()]);
    if (!picture.querySelector(":scope > title")?.textContent) wrong.push("a picture without a title");
    if (innerWidth >= 400) for (const text of picture.querySelectorAll("text"))
      if (parseFloat(getComputedStyle(text).fontSize) * picture.getScreenCTM().a < 9) wrong.push("small: " + text.textContent.trim());
    texts.forEach(([one, a], at) => texts.slice(at + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > a.height / 2) wrong.push(one.textContent.trim() + " on " + other.textContent.trim());
    }));
  }
  /* The page of a run has its command once. */
  const is_run = /^wharf (send|receive|forward)$/.test(document.title);
  if (is_run && ![...document.querySelectorAll("code")].some(code => /^wharf (send|receive|forward) /.test(code.textContent))) wrong.push("no command");
  for (const figure of document.querySelectorAll("figure"))
    if (!is_run && !/wharf (lab run|plan) /.test(figure.textContent)) wrong.push("no command: " + figure.textContent.slice(0, 60));
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
for page in "${pages[@]}"; do
  sed "s|</body>|$(tr '\n' ' ' <<<"$probe" | sed 's/[&|\\]/\\&/g')</body>|" "$out/$page/report.html" >"$out/probed-$page.html"
done

# browse THEME FILE OPTION...: opens it in Chromium, in which 0 is the dark theme. It wants a sandbox of its own that root cannot have.
browse() {
  within 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$out/browser" --allow-file-access-from-files \
    --hide-scrollbars --blink-settings="preferredColorScheme=$1" "${@:3}" "file://$2" 2>"$out/browser.err" ||
    die "chromium: $(tail -n 1 "$out/browser.err")"
}

for theme in 1 0; do
  count=0
  : >"$out/frames.html"
  for page in "${pages[@]}"; do
    # The last is the width of a sheet of A4.
    for frame in 2560 1280 400 320 718#print; do
      width=${frame%#*} hash=${frame#"${frame%#*}"}
      # In a frame, since a window is 500 pixels wide at least.
      line="<iframe style='border:0;width:${width}px;height:6000px' src=probed-$page.html$hash \
        onload='document.title += \"$page \" + this.contentDocument.title + \"@@\"'></iframe>"
      echo "$line" >>"$out/frames.html"
      count=$((count + 1))
      [ -n "${SCREENSHOTS:-}" ] || continue
      mkdir -p "$SCREENSHOTS"
      echo "<body style='margin:0'>$line" >"$out/shot.html"
      browse $theme "$out/shot.html" --window-size="$width,6000" --screenshot="$SCREENSHOTS/$page-$width-$theme.png" >"$out/shot"
    done
  done
  browse $theme "$out/frames.html" --dump-dom >"$out/dom"
  sed -n 's|.*<title>\(.*\)</title>.*|\1|p' "$out/dom" | sed 's/@@/\n/g' | grep . >"$out/titles"
  [ "$(grep -c ', wrong: none$' "$out/titles")" = $count ] ||
    die "theme $theme: $(grep -v ', wrong: none$' "$out/titles" || echo "$(wc -l <"$out/titles") of $count measured")"
  sed 's/, wrong: none$//' "$out/titles"
done

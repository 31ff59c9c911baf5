package main

import (
	"bytes"
	"fmt"
	"html"
	"unicode/utf8"
)

// The picture is a terminal of columns by rows letters. A scene shows its command first and its output a
// moment later.
const (
	columns = 92
	rows    = 15
	width   = 820 // pixels: a letter of 14 pixels is 8.4 wide
	line    = 20  // pixels a row
	margin  = 24
	head    = 60 // pixels above the first row
	typing  = 1  // seconds from the command to its output
	reading = 4  // seconds from the output to the next scene
)

// draw returns the shots as an SVG image that shows one after the other, for ever. A reader who wants no
// motion gets the last one.
func draw(shots []shot) []byte {
	var b bytes.Buffer
	height := head + rows*line + margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-label="The commands of five minutes with berth, and their outputs">`+"\n", width, height, width, height)
	b.WriteString("<style>\n" +
		"text { font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre }\n" +
		".say { fill: #88c0d0; font-weight: bold } .prompt { fill: #a3be8c }\n" +
		".scene, .out { opacity: 0 }\n")
	for i := range shots {
		writeTimes(&b, i, len(shots))
	}
	fmt.Fprintf(&b, "@media (prefers-reduced-motion: reduce) {\n"+
		".scene, .out { animation: none } #s%d, #s%d .out { opacity: 1 }\n}\n</style>\n", len(shots)-1, len(shots)-1)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#2e3440"/>`+"\n", width, height)
	for i, s := range shots {
		writeShot(&b, i, s)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// writeTimes writes when a scene and its output are seen.
func writeTimes(b *bytes.Buffer, i, n int) {
	const each = typing + reading
	part := func(seconds int) float64 { return 100 * float64(seconds) / float64(each*n) }
	begin := part(each * i)
	output := part(each*i + typing)
	end := part(each * (i + 1))
	for _, seen := range []struct {
		name string
		from float64
	}{{"s", begin}, {"o", output}} {
		fmt.Fprintf(b, "@keyframes %s%d { 0%%, %.2f%% { opacity: 0 } %.2f%%, %.2f%% { opacity: 1 } %.2f%%, 100%% { opacity: 0 } }\n",
			seen.name, i, max(seen.from-0.01, 0), seen.from, end-0.01, end)
	}
	fmt.Fprintf(b, "#s%d { animation: s%d %ds step-end infinite } #s%d .out { animation: o%d %ds step-end infinite }\n",
		i, i, each*n, i, i, each*n)
}

func writeShot(b *bytes.Buffer, i int, s shot) {
	fmt.Fprintf(b, `<g id="s%d" class="scene">`+"\n", i)
	writeLine(b, "say", 0, s.say)
	writeLine(b, "prompt", 1, "$ "+s.command)
	b.WriteString(`<g class="out">` + "\n")
	for n, text := range s.output[:min(len(s.output), rows-2)] {
		writeLine(b, "", n+2, text)
	}
	b.WriteString("</g>\n</g>\n")
}

// writeLine writes a line of the terminal. The line -1 is above it.
func writeLine(b *bytes.Buffer, class string, n int, text string) {
	if utf8.RuneCountInString(text) > columns {
		text = string([]rune(text)[:columns-1]) + "…"
	}
	y := margin + 10 + n*line
	if n > 0 {
		y = head + n*line - line/2
	}
	fmt.Fprintf(b, `<text xml:space="preserve" class="%s" x="%d" y="%d">%s</text>`+"\n", class, margin, y, html.EscapeString(text))
}

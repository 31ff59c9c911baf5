package command

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth/internal/version"
)

// ManualDate returns the date of a page. The seconds come from the environment variable SOURCE_DATE_EPOCH.
func ManualDate(epoch string) (string, error) {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", fmt.Errorf("SOURCE_DATE_EPOCH is %q; expected the seconds of a date", epoch)
	}
	return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
}

// ManualPage is the manual page of a command, in the language of man(7).
type ManualPage struct{ bytes.Buffer }

// Program writes the page of a program, with all commands of its tree.
func (p *ManualPage) Program(root Command, date string) {
	p.Begin(root.Name, strings.TrimSuffix(root.Synopsis, "."), date)
	for _, c := range root.Sub {
		if !c.Hidden {
			p.Describe(root.Name, c)
		}
	}
}

// Begin writes the title and the name of a page.
func (p *ManualPage) Begin(name, synopsis, date string) {
	p.Line(fmt.Sprintf(`.TH %q 1 %q "berth %s" "berth"`, strings.ToUpper(name), date, version.Version))
	p.Head("NAME")
	p.Line(escapeManual(name) + ` \- ` + escapeManual(lowerFirst(synopsis)))
}

// Describe writes a command and those below it.
func (p *ManualPage) Describe(path string, c Command) {
	path += " " + c.Name
	if c.Run != nil && c.Same == "" {
		p.Head(path)
		p.Line(".B " + escapeManual(path))
		p.Text(strings.TrimSpace("[options] " + c.Args))
		p.Line(".PP")
		p.Text(c.Synopsis + ".")
		p.paragraphs(c.Help)
		p.options(c)
		if c.Examples != "" {
			p.Line(".PP")
			p.Text("Examples:")
			p.block(c.Examples)
		}
	}
	for _, sub := range c.Sub {
		if !sub.Hidden {
			p.Describe(path, sub)
		}
	}
}

// options writes the options of a command, also options that it shares with others.
func (p *ManualPage) options(c Command) {
	for _, f := range c.AllFlags() {
		p.Item(f.Head(), f.About()+".")
	}
}

// paragraphs writes a text whose paragraphs are apart by blank lines. Its lines stay: some are lists.
func (p *ManualPage) paragraphs(text string) {
	text = strings.Trim(text, "\n")
	if text == "" {
		return
	}
	p.Line(".PP")
	p.Line(".nf")
	p.Text(text)
	p.Line(".fi")
}

// block writes lines that stay as they are, with an indent.
func (p *ManualPage) block(text string) {
	p.Line(".RS")
	p.Line(".nf")
	p.Text(text)
	p.Line(".fi")
	p.Line(".RE")
}

// SeeAlso writes the name of another page.
func (p *ManualPage) SeeAlso(name string) {
	p.Head("SEE ALSO")
	p.Line(".BR " + escapeManual(name) + " (1)")
}

// Head begins a section. Its title has no quotes after escape.
func (p *ManualPage) Head(title string) { p.Line(`.SH "` + escapeManual(title) + `"`) }

// Item writes a term with its explanation.
func (p *ManualPage) Item(term, text string) {
	p.Line(".TP")
	p.Line(".B " + escapeManual(term))
	p.Text(text)
}

// Text writes lines in which nothing is a request of the language.
func (p *ManualPage) Text(text string) {
	for line := range strings.Lines(text) {
		line = escapeManual(strings.TrimSuffix(line, "\n"))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.Line(line)
	}
}

// Line writes a line as it is.
func (p *ManualPage) Line(line string) { p.WriteString(line + "\n") }

var manualEscapes = strings.NewReplacer(
	`\`, `\e`, "-", `\-`, `"`, `\(dq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`,
)

// escapeManual returns a text in which no character has a meaning of its own.
func escapeManual(text string) string { return manualEscapes.Replace(text) }

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

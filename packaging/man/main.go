// Command man writes the manual pages of berth from its tree of commands: berth(1), and a page for each
// command of the first level, such as berth-job(1). Its only argument is the directory of the pages. The
// environment variable SOURCE_DATE_EPOCH has the seconds of their date.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/agent/commands"
	"berth/cli"
	"berth/cli/command"
	"berth/internal/version"
)

func main() {
	err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments are given; expected the directory of the pages", len(args))
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q; expected the seconds of a date", epoch)
	}
	err = os.MkdirAll(args[0], 0o755)
	if err != nil {
		return err
	}
	date := time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	for name, page := range pages(date) {
		err = os.WriteFile(filepath.Join(args[0], name+".1"), page, 0o644)
		if err != nil {
			return err
		}
	}
	return nil
}

// pages returns the pages of a date by their names.
func pages(date string) map[string][]byte {
	tree := cli.Tree(commands.All()...)
	all := map[string][]byte{"berth": overview(tree, date)}
	for _, c := range tree {
		if c.Hidden || c.Same != "" {
			continue
		}
		var p page
		p.begin("berth-"+c.Name, c.Synopsis, date)
		p.describe("berth", c)
		p.seeAlso("berth")
		all["berth-"+c.Name] = p.Bytes()
	}
	return all
}

// overview returns berth(1), which lists the commands.
func overview(tree []command.Command, date string) []byte {
	var p page
	p.begin("berth", "a clustered control plane for CSI storage and the jobs that use it", date)
	p.head("SYNOPSIS")
	p.line(".B berth")
	p.text("<command> [options] [arguments]")
	p.head("COMMANDS")
	for _, c := range tree {
		switch {
		case c.Hidden:
		case c.Same != "":
			p.item("berth "+c.Name, c.Synopsis+". The same as berth "+c.Same+".")
		default:
			p.item("berth-"+c.Name+"(1)", c.Synopsis+".")
		}
	}
	p.head("FILES")
	p.item("/etc/berth", "The configuration of the agent.")
	p.item("/var/lib/berth", "The data of the agent.")
	p.item("/var/lib/berth/berth.sock", "The operator socket, over which root has the HTTP API.")
	p.head("ENVIRONMENT")
	p.item("BERTH_ADDR", "The address of the agent that commands call.")
	p.item("BERTH_TOKEN", "The token of the caller, if the cluster has access control.")
	return p.Bytes()
}

// page is a page in the language of man(7).
type page struct{ bytes.Buffer }

// begin writes the title and the name of a page.
func (p *page) begin(name, synopsis, date string) {
	p.line(fmt.Sprintf(`.TH %q 1 %q "berth %s" "berth"`, strings.ToUpper(name), date, version.Version))
	p.head("NAME")
	p.line(escape(name) + ` \- ` + escape(lowerFirst(synopsis)))
}

// describe writes a command and those below it.
func (p *page) describe(path string, c command.Command) {
	path += " " + c.Name
	if c.Run != nil && c.Same == "" {
		p.head(path)
		p.line(".B " + escape(path))
		p.text(strings.TrimSpace("[options] " + c.Args))
		p.line(".PP")
		p.text(c.Synopsis + ".")
		p.paragraphs(c.Help)
		p.options(c)
		if c.Examples != "" {
			p.line(".PP")
			p.text("Examples:")
			p.block(c.Examples)
		}
	}
	for _, sub := range c.Sub {
		if !sub.Hidden {
			p.describe(path, sub)
		}
	}
}

// options writes the options of a command, also those that it shares with others.
func (p *page) options(c command.Command) {
	for _, f := range c.AllFlags() {
		p.item(f.Head(), f.About()+".")
	}
}

// paragraphs writes a text whose paragraphs are apart by blank lines. Its lines stay: some are lists.
func (p *page) paragraphs(text string) {
	text = strings.Trim(text, "\n")
	if text == "" {
		return
	}
	p.line(".PP")
	p.line(".nf")
	p.text(text)
	p.line(".fi")
}

// block writes lines that stay as they are, with an indent.
func (p *page) block(text string) {
	p.line(".RS")
	p.line(".nf")
	p.text(text)
	p.line(".fi")
	p.line(".RE")
}

func (p *page) seeAlso(name string) {
	p.head("SEE ALSO")
	p.line(".BR " + escape(name) + " (1)")
}

func (p *page) head(title string) { p.line(".SH " + strconv.Quote(escape(title))) }

// item writes a term with its explanation.
func (p *page) item(term, text string) {
	p.line(".TP")
	p.line(".B " + escape(term))
	p.text(text)
}

// text writes lines in which nothing is a request of the language.
func (p *page) text(text string) {
	for line := range strings.Lines(text) {
		line = escape(strings.TrimSuffix(line, "\n"))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.line(line)
	}
}

func (p *page) line(line string) { p.WriteString(line + "\n") }

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// escape returns a text in which no character has a meaning of its own.
func escape(text string) string { return escapes.Replace(text) }

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

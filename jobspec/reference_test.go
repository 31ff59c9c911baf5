package jobspec

import (
	"encoding"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"berth/jobspec/evaluate"
)

// page is a page of docs whose last section, "Blocks", is the reference of a file format. The tags of the
// structs give the rows of its tables. The other columns, the texts and the examples are written by hand.
type page struct {
	file  string
	guide string // another page with examples of the format, or ""
	roots []reflect.Type
	whole func(example string) string           // makes a file of an example, which may be one block
	read  func(src string) (row any, err error) // parses, canonicalizes and validates a file
}

func pages() []page {
	return []page{
		{
			file:  "../docs/reference/jobs.md",
			guide: "../docs/jobs.md",
			roots: []reflect.Type{reflect.TypeFor[evaluate.VariableFile](), reflect.TypeFor[jobFile]()},
			whole: wholeJob,
			read:  readJob,
		},
		{
			file:  "../docs/storage/volumes.md",
			roots: []reflect.Type{reflect.TypeFor[volumeFile]()},
			whole: wholeVolume,
			read:  readVolume,
		},
		{
			file:  "../docs/storage/classes.md",
			roots: []reflect.Type{reflect.TypeFor[classFile]()},
			whole: wholeClass,
			read:  readClass,
		},
	}
}

// outermost is the name of the section of the arguments and blocks outside of all blocks.
const outermost = "file"

// section describes one block.
type section struct {
	name        string
	rows        []row
	unsupported []string
	dialect     []string // a line for each name that is rejected or ignored for a reason
	text        string   // below the table, with the example
}

// row describes an argument or a block in a block.
type row struct {
	name, syntax, value         string // from the tags
	defaultText, bound, meaning string // written by hand
}

// TestReference_IsCurrent compares the tables of the pages with the tags. -rewrite adds missing rows, with
// empty columns, and drops those of no tag.
func TestReference_IsCurrent(t *testing.T) {
	for _, p := range pages() {
		compareGolden(t, p.file, []byte(p.text(t)))
	}
}

const tableHead = "| name | value | default | bound | meaning |\n|---|---|---|---|---|\n"

var sectionHeading = regexp.MustCompile("(?m)^### `([a-z_.]+)`\n")

// text returns the page with the tables of the tags.
func (p *page) text(t *testing.T) string {
	t.Helper()
	head, _ := p.split(t)
	var b strings.Builder
	b.WriteString(head)
	for i, s := range p.sections(t) {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "### `%s`\n\n%s", s.name, tableHead)
		for _, r := range s.rows {
			b.WriteString("|")
			for _, cell := range []string{"`" + r.syntax + "`", r.value, r.defaultText, r.bound, r.meaning} {
				b.WriteString(strings.TrimRight(" "+cell, " ") + " |")
			}
			b.WriteString("\n")
		}
		if len(s.unsupported) > 0 {
			fmt.Fprintf(&b, "\nRejected, because berth does not support it yet: `%s`.\n",
				strings.Join(s.unsupported, "`, `"))
		}
		if len(s.dialect) > 0 {
			fmt.Fprintf(&b, "\n%s\n", strings.Join(s.dialect, "\n"))
		}
		fmt.Fprintf(&b, "\n%s\n", s.text)
	}
	return b.String()
}

// split returns the text before the sections, and the sections as they are in the file.
func (p *page) split(t *testing.T) (head string, written map[string]*section) {
	t.Helper()
	src, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(src)
	starts := sectionHeading.FindAllStringSubmatchIndex(text, -1)
	written = map[string]*section{}
	if len(starts) == 0 {
		return text, written
	}
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		s := readSection(text[at[2]:at[3]], text[at[1]:end])
		written[s.name] = s
	}
	return text[:starts[0][0]], written
}

// The lines of names that are rejected or ignored for a reason.
const (
	rejectedLine = "- `%s` is rejected: %s."
	ignoredLine  = "- `%s` has no effect: %s."
)

var dialectLine = regexp.MustCompile("^- `[a-z_]+` (is rejected|has no effect): ")

var rowName = regexp.MustCompile("^`([a-z_]+)")

func readSection(name, text string) *section {
	s := &section{name: name}
	var free strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "| name |"), strings.HasPrefix(line, "|---"),
			strings.HasPrefix(line, "Rejected, because"), dialectLine.MatchString(line):
		case strings.HasPrefix(line, "| `"):
			cells := strings.Split(strings.TrimSpace(line), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			cells = append(cells, "", "", "", "", "")
			s.rows = append(s.rows, row{
				name:        rowName.FindStringSubmatch(cells[1])[1],
				defaultText: cells[3],
				bound:       cells[4],
				meaning:     cells[5],
			})
		default:
			free.WriteString(line)
		}
	}
	s.text = strings.TrimSpace(free.String())
	return s
}

// sections returns a section for each block of the tags, in the order of the tags, with the columns and the
// text of the page.
func (p *page) sections(t *testing.T) []*section {
	t.Helper()
	d := describer{seen: map[reflect.Type]bool{}}
	d.describe("", outermost, p.roots...)
	_, written := p.split(t)
	names := map[string]bool{}
	for _, s := range d.sections {
		if names[s.name] {
			t.Fatalf("two types of blocks have the name %q; the page needs a section for each", s.name)
		}
		names[s.name] = true
		w := written[s.name]
		if w == nil {
			continue
		}
		s.text = w.text
		for i := range s.rows {
			at := slices.IndexFunc(w.rows, func(r row) bool { return r.name == s.rows[i].name })
			if at >= 0 {
				s.rows[i].defaultText = w.rows[at].defaultText
				s.rows[i].bound = w.rows[at].bound
				s.rows[i].meaning = w.rows[at].meaning
			}
		}
	}
	return d.sections
}

// describer makes the sections of types.
type describer struct {
	sections []*section
	seen     map[reflect.Type]bool
}

// describe adds the section of a block, and then those of the blocks in it. If another type has the name, the
// section also has that of the block around it. The blocks in a sidecar_task are those of a task.
func (d *describer) describe(parent, name string, types ...reflect.Type) {
	if d.seen[types[0]] {
		return
	}
	s := &section{name: name}
	if slices.ContainsFunc(d.sections, func(o *section) bool { return o.name == name }) {
		s.name = parent + "." + name
	}
	d.sections = append(d.sections, s)
	for _, block := range types {
		d.seen[block] = true
		for _, f := range reflect.VisibleFields(block) {
			if r := rowOf(f); r.name != "" {
				s.rows = append(s.rows, r)
			}
		}
		if u, ok := reflect.Zero(block).Interface().(interface{ Unsupported() string }); ok {
			s.unsupported = strings.Fields(u.Unsupported())
			slices.Sort(s.unsupported)
		}
		s.dialect = append(s.dialect, dialectLines(block)...)
	}
	for _, block := range types {
		if block == reflect.TypeFor[sidecarTask]() {
			continue
		}
		for _, f := range blocksOf(block) {
			d.describe(name, rowOf(f).name, structOf(f.Type))
		}
	}
}

// dialectLines describes the names of the dialect that a block rejects or ignores.
func dialectLines(block reflect.Type) (lines []string) {
	zero := reflect.Zero(block).Interface()
	if d, ok := zero.(interface{ Rejected() map[string]string }); ok {
		for name, reason := range d.Rejected() {
			lines = append(lines, fmt.Sprintf(rejectedLine, name, reason))
		}
	}
	if d, ok := zero.(interface{ Ignored() map[string]string }); ok {
		for name, reason := range d.Ignored() {
			lines = append(lines, fmt.Sprintf(ignoredLine, name, reason))
		}
	}
	slices.Sort(lines)
	return lines
}

// blocksOf returns the fields of a struct that are blocks.
func blocksOf(block reflect.Type) (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(block) {
		if strings.HasSuffix(f.Tag.Get("hcl"), ",block") {
			fields = append(fields, f)
		}
	}
	return fields
}

// rowOf returns the row of a field, without a name if the field is no argument or block.
func rowOf(f reflect.StructField) row {
	name, options, _ := strings.Cut(f.Tag.Get("hcl"), ",")
	switch {
	case strings.Contains(options, "block"):
		return row{name: name, syntax: blockSyntax(name, f.Type), value: blockCount(f.Type)}
	case strings.Contains(options, "required"):
		return row{name: name, syntax: name, value: typeText(f.Type) + "; required"}
	}
	return row{name: name, syntax: name, value: typeText(f.Type)}
}

func structOf(t reflect.Type) reflect.Type {
	for t.Kind() != reflect.Struct {
		t = t.Elem()
	}
	return t
}

func blockSyntax(name string, t reflect.Type) string {
	labelled := t.Kind() == reflect.Map
	for _, f := range reflect.VisibleFields(structOf(t)) {
		labelled = labelled || f.Tag.Get("hcl") == ",label"
	}
	if labelled {
		return name + ` "name" { ... }`
	}
	return name + " { ... }"
}

func blockCount(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a block, any number"
	case reflect.Map:
		return "a block, any number with different names"
	}
	return "a block"
}

func typeText(t reflect.Type) string {
	if d, ok := reflect.New(t).Interface().(interface{ Expected() string }); ok {
		return d.Expected()
	}
	switch {
	case t == reflect.TypeFor[hcl.Expression]():
		return "an expression"
	case t == reflect.TypeFor[time.Duration]():
		return `a duration such as "30s"`
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeText(t.Elem())
	case reflect.Slice:
		return "a list: " + typeText(t.Elem())
	case reflect.Map:
		return "a map: " + typeText(t.Elem())
	case reflect.Interface:
		return "any value"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

package job

import (
	"fmt"
	"slices"
	"strings"

	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

// diffPrinter writes the difference between two versions of a job.
type diffPrinter struct {
	*command.Call
	all bool // also equal fields
}

// diffMarks has the marks of differences, with their colours.
var diffMarks = map[string]struct{ mark, colour string }{
	structs.DiffAdded:   {"+", command.Green},
	structs.DiffDeleted: {"-", command.Red},
	structs.DiffEdited:  {"+/-", command.Yellow},
	structs.DiffNone:    {"", ""},
}

// line writes a line with the mark of a difference.
func (d diffPrinter) line(depth int, kind, format string, args ...any) {
	m := diffMarks[kind]
	mark := fmt.Sprintf("%-3s", m.mark)
	if m.colour != "" && d.Colour() {
		mark = m.colour + mark + command.Plain
	}
	text := structs.Printable(fmt.Sprintf(format, args...))
	line := mark + " " + strings.Repeat("  ", depth) + text
	fmt.Fprintln(d.Out, strings.TrimRight(line, " "))
}

// printJobDiff writes all parts that differ.
func (d diffPrinter) printJobDiff(diff *structs.JobDiff) {
	d.line(0, diff.Type, "Job: %q", diff.ID)
	d.printParts(0, diff.Type, diff.Fields, diff.Objects)
	for _, g := range diff.TaskGroups {
		if !d.all && g.Type == structs.DiffNone && len(g.Updates) == 0 {
			continue
		}
		d.line(0, g.Type, "Task Group: %q%s", g.Name, noteOf(updateTexts(g.Updates)))
		d.printParts(1, g.Type, g.Fields, g.Objects)
		for _, t := range g.Tasks {
			if !d.all && t.Type == structs.DiffNone {
				continue
			}
			d.line(1, t.Type, "Task: %q%s", t.Name, noteOf(t.Annotations))
			d.printParts(2, t.Type, t.Fields, t.Objects)
		}
	}
}

// printParts writes the fields and objects of a part. Of a new job it writes all, of a deleted one none.
func (d diffPrinter) printParts(
	depth int, kind string, fields []*structs.FieldDiff, objects []*structs.ObjectDiff,
) {
	if kind == structs.DiffDeleted && !d.all {
		return
	}

	for _, f := range fields {
		if d.all || f.Type != structs.DiffNone {
			d.printField(depth, f)
		}
	}

	for _, o := range objects {
		if !d.all && o.Type == structs.DiffNone {
			continue
		}
		d.line(depth, o.Type, "%s%s {", o.Name, objectLabel(o))
		d.printParts(depth+1, structs.DiffEdited, o.Fields, o.Objects)
		d.line(depth, structs.DiffNone, "}")
	}
}

// objectLabel returns the name by which a changed object is known.
func objectLabel(o *structs.ObjectDiff) string {
	for _, f := range o.Fields {
		if f.Type == structs.DiffNone && f.New != "" && (f.Name == "Name" || f.Name == "Label") {
			return fmt.Sprintf(" %q", f.New)
		}
	}
	return ""
}

func (d diffPrinter) printField(depth int, f *structs.FieldDiff) {
	note := noteOf(f.Annotations)
	switch f.Type {
	case structs.DiffDeleted:
		d.line(depth, f.Type, "%s: %q%s", f.Name, f.Old, note)
	case structs.DiffEdited:
		d.line(depth, f.Type, "%s: %q => %q%s", f.Name, f.Old, f.New, note)
	default:
		d.line(depth, f.Type, "%s: %q%s", f.Name, f.New, note)
	}
}

// updateTexts has the effects on allocations, as "2 create".
func updateTexts(updates map[string]uint64) (texts []string) {
	for name, n := range show.Sorted(updates) {
		texts = append(texts, fmt.Sprintf("%d %s", n, name))
	}
	return texts
}

func noteOf(texts []string) string {
	texts = slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

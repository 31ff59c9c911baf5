// Package report tells how the objects of another system fare in berth, and writes their files into a
// folder.
//
// A report has names and sentences, and no values: neither of variables nor of secrets.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Outcome tells how an object runs in berth.
type Outcome string

// The outcomes, from the best to the worst.
const (
	AsItIs   Outcome = "as it is"
	Warnings Outcome = "with a warning"
	Not      Outcome = "not"
)

// Item is one object.
type Item struct {
	Kind      string // job, volume, host volume, namespace, policy, variable
	Namespace string `json:",omitempty"`
	Name      string
	File      string `json:",omitempty"` // in the folder; "" without one
	Outcome   Outcome
	// Notes are warnings, or the reasons and remedies of Not.
	Notes []string `json:",omitempty"`
}

// Add adds a note, and makes the outcome at least as bad as the given one.
func (i *Item) Add(o Outcome, notes ...string) {
	if o == Not || i.Outcome != Not {
		i.Outcome = o
	}
	i.Notes = append(i.Notes, notes...)
}

// Report has all objects of a cluster.
type Report struct {
	Source string // the address of the cluster
	Items  []*Item
	Notes  []string // on the whole
}

// Add adds an object that runs as it is, until Item.Add says otherwise.
func (r *Report) Add(kind, namespace, name string) *Item {
	item := &Item{
		Kind:      kind,
		Namespace: namespace,
		Name:      name,
		Outcome:   AsItIs,
	}
	r.Items = append(r.Items, item)
	return item
}

// Count returns the number of objects with an outcome.
func (r *Report) Count(o Outcome) (n int) {
	for _, i := range r.Items {
		if i.Outcome == o {
			n++
		}
	}
	return n
}

// JSON returns the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return append(text, '\n'), nil
}

// Markdown returns the report for people: objects that do not run come first.
func (r *Report) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", plain(r.Source))
	fmt.Fprintf(&b, "%s\n", r.Summary())
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\n- %s", plain(note))
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, o := range []Outcome{Not, Warnings, AsItIs} {
		if r.Count(o) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", headings[o])
		for _, i := range r.Items {
			if i.Outcome == o {
				i.write(&b)
			}
		}
	}
	return b.Bytes()
}

var headings = map[Outcome]string{
	Not:      "Do not run",
	Warnings: "Run with a warning",
	AsItIs:   "Run as they are",
}

// Summary returns one line with the numbers of objects.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d objects: %d run as they are, %d with a warning, %d do not.", len(r.Items),
		r.Count(AsItIs), r.Count(Warnings), r.Count(Not))
}

func (i *Item) write(b *bytes.Buffer) {
	name := i.Name
	if i.Namespace != "" {
		name = i.Namespace + "/" + i.Name
	}
	fmt.Fprintf(b, "- %s `%s`", i.Kind, plain(name))
	if i.File != "" {
		fmt.Fprintf(b, ": `%s`", plain(i.File))
	}
	b.WriteString("\n")
	for _, note := range i.Notes {
		for line := range strings.SplitSeq(note, "\n") {
			fmt.Fprintf(b, "  - %s\n", plain(line))
		}
	}
}

// plain returns a text without the characters that would end a line, a code span or the control of a
// terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '`':
			return '\''
		case !strconv.IsPrint(r):
			return ' '
		}
		return r
	}, text)
}

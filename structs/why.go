package structs

import (
	"cmp"
	"strings"
)

// Reason is one link of the chain that explains why something waits: a fact, the remedy if an operator can do
// something about it, and the facts behind it.
type Reason struct {
	Text    string
	Fact    string    `json:",omitempty"` // Text without what changes as time passes; "": Text itself
	Remedy  string    `json:",omitempty"` // a command, or a sentence; "": nothing, or see Because
	Because []*Reason `json:",omitempty"`
}

// Same returns a text that is equal as long as the reason says the same.
func (r *Reason) Same() string { return cmp.Or(r.Fact, r.Text) }

// Causes returns the links of chains of reasons that tell the most: those with a remedy, and the last ones.
func Causes(reasons []*Reason) (causes []*Reason) {
	for _, r := range reasons {
		if len(r.Because) == 0 || r.Remedy != "" {
			causes = append(causes, r)
		}
		causes = append(causes, Causes(r.Because)...)
	}
	return causes
}

// WhyText returns reasons as indented lines, as the command line shows them.
func WhyText(reasons []*Reason) string {
	var b strings.Builder
	writeReasons(&b, reasons, "")
	return b.String()
}

func writeReasons(b *strings.Builder, reasons []*Reason, indent string) {
	for _, r := range reasons {
		b.WriteString(indent + r.Text + "\n")
		if r.Remedy != "" {
			b.WriteString(indent + "  -> " + r.Remedy + "\n")
		}
		writeReasons(b, r.Because, indent+"  ")
	}
}

// JobWhy explains why a job does not run as its specification demands.
var JobWhy = Read[JobGetRequest, WhyResponse]("Job.Why")

// VolumeWhy explains why a volume, or the use of it, waits.
var VolumeWhy = Read[CSIVolumeGetRequest, WhyResponse]("CSIVolume.Why")

// WhyResponse has the chain of reasons, and the same as text.
type WhyResponse struct {
	Waits   bool // false: nothing waits, and Reasons say so
	Reasons []*Reason
	Text    string
	QueryMeta
}

// Package jobtag has the requests that put a tag on a version of a job, and that remove one. The tag itself
// is structs.JobVersionTag, because the row of a job has it.
package jobtag

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/structs"
)

// The bounds.
const (
	// MaxName is the most bytes of the name of a tag.
	MaxName = 128
	// MaxDescription is the most bytes of the description of a tag.
	MaxDescription = 1000
	// MaxTags is the most versions of one job with a tag: each stays until it has none.
	MaxTags = 64
)

// Apply puts a tag on a version of a job, or replaces the tag that the version has.
var Apply = structs.Write[JobTagRequest, JobTagResponse]("Job.TagVersion")

// JobTagRequest names the version and its tag.
type JobTagRequest struct {
	JobID       string
	JobVersion  uint64
	TagName     string
	Description string `json:",omitempty" codec:",omitempty"`
	structs.WriteOptions
}

// JobTagResponse has the tag as it is stored.
type JobTagResponse struct {
	Name        string
	Description string
	TaggedTime  int64
	structs.WriteMeta
}

// Remove removes a tag from its version.
var Remove = structs.Write[JobUntagRequest, structs.Empty]("Job.UntagVersion")

// JobUntagRequest names the tag.
type JobUntagRequest struct {
	JobID   string
	TagName string
	structs.WriteOptions
}

// Check returns the fault of a tag, nil if it has none.
func Check(name, description string) error {
	shown := structs.Cut(name, structs.MaxQuoted)
	switch {
	case name == "":
		return structs.Invalidf("the name of the tag is missing; expected 1 to %d bytes", MaxName)
	case len(name) > MaxName:
		return structs.Invalidf("the name of tag %q has %d bytes; at most %d are allowed",
			shown, len(name), MaxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return structs.Invalidf("the name of tag %q must be text in UTF-8 without control characters", shown)
	case len(description) > MaxDescription:
		return structs.Invalidf("the description of tag %q has %d bytes; at most %d are allowed",
			shown, len(description), MaxDescription)
	case !utf8.ValidString(description) || strings.ContainsRune(description, 0):
		return structs.Invalidf("the description of tag %q must be text in UTF-8 without NUL", shown)
	}
	return nil
}

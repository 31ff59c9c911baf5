package structs

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of tags.
const (
	// MaxJobTagName is the most bytes of the name of a tag.
	MaxJobTagName = 128
	// MaxJobTagDescription is the most bytes of the description of a tag.
	MaxJobTagDescription = 1000
	// MaxJobTags is the most versions of one job with a tag: each stays until it has none.
	MaxJobTags = 64
)

// JobTagApply puts a tag on a version of a job, or replaces the tag that the version has.
// The tag itself is JobVersionTag, in the row of the job.
var JobTagApply = Write[JobTagRequest, JobTagResponse]("Job.TagVersion")

// JobTagRequest names the version and its tag.
type JobTagRequest struct {
	JobID       string
	JobVersion  uint64
	TagName     string
	Description string `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// JobTagResponse has the tag as it is stored.
type JobTagResponse struct {
	Name        string
	Description string
	TaggedTime  int64
	WriteMeta
}

// JobTagRemove removes a tag from its version.
var JobTagRemove = Write[JobUntagRequest, Empty]("Job.UntagVersion")

// JobUntagRequest names the tag.
type JobUntagRequest struct {
	JobID   string
	TagName string
	WriteOptions
}

// CheckJobTag returns the fault of a tag, nil if it has none.
func CheckJobTag(name, description string) error {
	shown := Cut(name, MaxQuoted)
	switch {
	case name == "":
		return Invalidf("the name of the tag is missing; expected 1 to %d bytes", MaxJobTagName)
	case len(name) > MaxJobTagName:
		return Invalidf("the name of tag %q has %d bytes; at most %d are allowed",
			shown, len(name), MaxJobTagName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return Invalidf("the name of tag %q must be text in UTF-8 without control characters", shown)
	case len(description) > MaxJobTagDescription:
		return Invalidf("the description of tag %q has %d bytes; at most %d are allowed",
			shown, len(description), MaxJobTagDescription)
	case !utf8.ValidString(description) || strings.ContainsRune(description, 0):
		return Invalidf("the description of tag %q must be text in UTF-8 without NUL", shown)
	}
	return nil
}

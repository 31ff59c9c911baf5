package structs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CSIVolumeLabel sets and removes labels of a volume. The others stay.
var CSIVolumeLabel = Write[CSIVolumeLabelRequest, CSIVolumeLabelResponse]("CSIVolume.Label")

// CSIVolumeLabelRequest names the volume. No key is in both Set and Unset. A key of Unset need not exist.
type CSIVolumeLabelRequest struct {
	ID    string
	Set   map[string]string
	Unset []string
	WriteOptions
}

// CSIVolumeLabelResponse has the warnings of admission rules, "" for none.
type CSIVolumeLabelResponse struct {
	Warnings string `json:",omitempty"`
	WriteMeta
}

// The bounds of labels.
const (
	MaxLabels     = 32
	MaxLabelKey   = 64  // bytes
	MaxLabelValue = 128 // bytes
)

var labelKey = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9_./-]*[a-zA-Z0-9])?$`)

// CheckLabels returns an error unless labels are within their bounds: a key is letters, digits and _ . / -
// between them, and a value is text in one line.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return Invalidf("labels: there are %d; at most %d are allowed", len(labels), MaxLabels)
	}

	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		switch {
		case len(key) > MaxLabelKey || !labelKey.MatchString(key):
			return Invalidf("labels: the key %q must be at most %d letters, digits, and _ . / - between them",
				Cut(key, MaxQuoted), MaxLabelKey)
		case len(value) > MaxLabelValue || !utf8.ValidString(value) ||
			strings.ContainsFunc(value, unicode.IsControl):
			return Invalidf("labels: the value of %q must be at most %d bytes of text in one line", key,
				MaxLabelValue)
		}
	}
	return nil
}

// LabelsText returns labels in one line, sorted by their keys.
func LabelsText(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ", ")
}

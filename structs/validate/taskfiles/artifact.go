package taskfiles

import (
	"cmp"
	"encoding/hex"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// artifactArchives are the values of the option archive that name a format.
var artifactArchives = []string{
	"bz2", "gz", "tar", "tar.bz2", "tar.gz", "tar.xz", "tar.zst", "tbz2", "tgz", "txz",
	"tzst", "xz", "zip", "zst",
}

// checksumBytes are the kinds of checksums with their sizes.
var checksumBytes = map[string]int{
	"md5":    16,
	"sha1":   20,
	"sha256": 32,
	"sha512": 64,
}

// CheckArtifacts checks the artifacts of a task.
func CheckArtifacts(f field.Errors, t *structs.Task) {
	for i, a := range field.FirstOf(f, "artifacts", t.Artifacts, structs.MaxArtifacts) {
		if a == nil {
			f.Addf("artifact %d is null", i+1)
			continue
		}

		f := f.At("artifact %d", i+1)
		checkArtifact(f, a)
		if t.Driver == driverExec {
			// A leading slash means the directory of the task, too.
			checkInRoot(f, strings.TrimLeft(a.RelativeDest, "/"))
		}
	}
}

// Artifact checks an artifact. The faults do not show its headers and options, which may be secret.
func Artifact(a *structs.TaskArtifact) error {
	f := field.New("artifact")
	checkArtifact(f, a)
	return f.Err()
}

// checkArtifact checks an artifact of a job, or of a node with the values of its placeholders.
func checkArtifact(f field.Errors, a *structs.TaskArtifact) {
	f.Require(a.GetterSource != "", "source is required")
	f.CheckText("source", a.GetterSource)

	// A source that is missing or too long has its fault already, and the parsers would read all of it.
	if a.GetterSource != "" && len(a.GetterSource) <= structs.MaxText {
		_, err := Getter(a)
		err = cmp.Or(err, checkSubdirectory(a.GetterSource), checkListed(a.GetterSource))
		f.Require(err == nil, "source: %v", err)
	}

	f.CheckOneOf("mode", a.GetterMode,
		[]string{structs.ArtifactAny, structs.ArtifactFile, structs.ArtifactDir})
	checkDest(f, a)
	checkOptions(f, a)
	checkHeaders(f, a)
}

// checkDest checks the place of an artifact. It is below the directory of the task, or in that which the
// tasks of the group share.
func checkDest(f field.Errors, a *structs.TaskArtifact) {
	dest := a.RelativeDest
	f.CheckText("destination", dest)
	if strings.Contains(dest, structs.Placeholder) || len(dest) > structs.MaxText {
		return // only the node knows the value
	}
	clean := path.Clean(dest)
	shared := clean == "../alloc" || strings.HasPrefix(clean, "../alloc/")
	f.Require(shared || clean != ".." && !strings.HasPrefix(clean, "../"),
		"destination %q must be within the task's directory, or within ../alloc", dest)
}

// checkOptions checks the options, which become the query of the URL.
func checkOptions(f field.Errors, a *structs.TaskArtifact) {
	options := a.GetterOptions
	f.CheckBytes("options", structs.PairBytes(options), structs.MaxArtifactBytes)
	if f.AtMost("options", len(options), structs.MaxArtifactPairs) < len(options) {
		return
	}

	for _, key := range slices.Sorted(maps.Keys(options)) {
		value := options[key]
		f.Require(key != "", "options: a key is empty")
		f.Require(field.IsText(key) && field.IsText(value), "options: %q must be text in UTF-8 without NUL",
			key)
		if key == "ref" {
			f.Require(isGitRef(value), "options: ref %s", gitRefRule)
		}

		// The node checks the value. A ref is checked above also with a placeholder, because of its
		// beginning.
		if strings.Contains(value, structs.Placeholder) {
			continue
		}

		switch key {
		case "checksum":
			f.Require(isChecksum(value),
				"options: checksum must be md5:, sha1:, sha256: or sha512: with its "+
					"hexadecimal digits, or file: with the URL of a list of checksums by http, https or file")
		case "archive":
			_, err := strconv.ParseBool(value)
			f.Require(err == nil || slices.Contains(artifactArchives, value),
				"options: archive %q must be false or %s", value, field.OneOf(artifactArchives))
		case "depth":
			_, err := strconv.ParseUint(value, 10, 31)
			f.Require(err == nil, "options: depth %q must be a number", value)
		}
	}
}

// isChecksum reports whether a text is a checksum, with or without its kind.
func isChecksum(text string) bool {
	kind, digits, typed := strings.Cut(text, ":")
	if kind == "file" {
		return isList(digits)
	}

	// Without its kind, the length tells which one it is.
	if !typed {
		digits = text
	}

	sum, err := hex.DecodeString(digits)
	if err != nil {
		return false
	}

	for k, n := range checksumBytes {
		if n == len(sum) && (!typed || k == kind) {
			return true
		}
	}

	return false
}

// isList reports whether a text is the address of a list of checksums: one file, not a repository with its
// options.
func isList(text string) bool {
	_, err := url.Parse(text)
	protocols := []string{"http", "https", "file"}
	return err == nil && !forcedForm().MatchString(text) && slices.Contains(protocols, sourceProtocol(text))
}

// checkHeaders checks the headers of a download. No fault shows a value, which may be a credential.
func checkHeaders(f field.Errors, a *structs.TaskArtifact) {
	headers := a.GetterHeaders
	f.CheckBytes("headers", structs.PairBytes(headers), structs.MaxArtifactBytes)
	if f.AtMost("headers", len(headers), structs.MaxArtifactPairs) < len(headers) {
		return
	}

	for _, key := range slices.Sorted(maps.Keys(headers)) {
		f.Require(field.IsHeader(key), "headers: %q is not the name of a header", key)

		// A line break would begin another header.
		f.Require(field.IsHeaderValue(headers[key]),
			"headers: the value of %q must be one line without control characters", key)
	}
}

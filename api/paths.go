package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// escapeID escapes the raw slashes of an ID if the path has only one meaning, so that the ID is one segment.
// The routes define the segments that may follow an ID. So /v1/volume/csi/a/b/create is the volume a/b, and
// /v1/job/a%2Fcreate stays the job a/create. A segment of no route does not belong to an ID: /v1/job/a/plan
// is not the job a/plan. Clients of the dialect escape the IDs of jobs but not of volumes. So in the
// path of a volume a last segment of no route is the end of the ID. They do escape the IDs in removals.
func escapeID(families []family, u *url.URL, method string) {
	path := u.EscapedPath()
	for _, f := range families {
		rest, ok := strings.CutPrefix(path, f.prefix)
		if !ok || !strings.Contains(rest, "/") {
			continue
		}

		id, suffix := rest, ""
		for _, s := range f.suffixes {
			cut, ok := strings.CutSuffix(rest, s)
			if ok && cut != "" {
				id = cut
				suffix = s
				break
			}
		}

		if suffix == "" && (method == http.MethodDelete || !f.isRawID(rest)) {
			return
		}

		if u.Path != "" {
			escaped := strings.ReplaceAll(id, "/", "%2F")
			u.RawPath = f.prefix + escaped + suffix
		}

		return
	}
}

// family describes the routes that have the same prefix before their ID.
type family struct {
	prefix   string
	suffixes []string
}

// volumePrefix is the prefix after which clients send IDs unescaped.
const volumePrefix = "/v1/volume/csi/"

// slashed lists the prefixes of IDs that may have slashes.
var slashed = []string{"/v1/job/", volumePrefix, "/v1/plugin/csi/"}

// volumeVerbs lists verbs that a client could try on a volume although berth has no route for them.
var volumeVerbs = []string{
	"attach",
	"capabilities",
	"clone",
	"deregister",
	"expand",
	"publish",
	"register",
	"resize",
	"restore",
	"snapshot",
	"snapshots",
	"stats",
	"status",
	"unpublish",
}

// isRawID reports whether rest, the path after the prefix, is an ID without the suffix of a route.
func (f family) isRawID(rest string) bool {
	verb := rest[strings.LastIndexByte(rest, '/')+1:]
	return f.prefix == volumePrefix &&
		verb != "" &&
		!slices.Contains(volumeVerbs, verb)
}

// familiesOf derives the families from the routes, so that no other place names a path.
func familiesOf(routes []*Route) (fs []family) {
	for _, prefix := range slashed {
		f := family{prefix: prefix}
		for _, r := range routes {
			suffix, ok := strings.CutPrefix(r.Path, prefix+"{id}")
			if ok && suffix != "" {
				f.suffixes = append(f.suffixes, suffix)
			}
		}
		fs = append(fs, f)
	}
	return fs
}

package api

import (
	"net/url"
	"slices"
	"strings"
	"sync"
)

// escapeID lets an ID with raw slashes be one segment of the path, where it cannot be anything else. The
// routes say which segments may follow an ID, so /v1/volume/csi/a/b/create is the volume a/b, and
// /v1/job/a%2Fcreate stays the job a/create. A segment that no route has is not part of an ID: /v1/job/a/plan
// is not the job a/plan. Clients of the dialect escape the IDs of jobs and send those of volumes as they are.
// So in the path of a volume a last segment that no route has is the end of the ID.
func escapeID(u *url.URL) {
	path := u.EscapedPath()
	for _, f := range families() {
		rest, ok := strings.CutPrefix(path, f.prefix)
		if !ok || !strings.Contains(rest, "/") {
			continue
		}
		id, suffix := rest, ""
		for _, s := range f.suffixes {
			if cut, ok := strings.CutSuffix(rest, s); ok && cut != "" {
				id, suffix = cut, s
				break
			}
		}
		if suffix == "" && !f.raw(rest) {
			return
		}
		if u.RawPath = f.prefix + strings.ReplaceAll(id, "/", "%2F") + suffix; u.Path == "" {
			u.RawPath = ""
		}
		return
	}
}

// family are the routes that begin alike up to their ID.
type family struct {
	prefix   string
	suffixes []string
}

// The prefixes whose IDs may hold slashes, and that under which clients send them unescaped.
const volumePrefix = "/v1/volume/csi/"

var slashed = []string{"/v1/job/", volumePrefix, "/v1/plugin/csi/"}

// volumeVerbs are verbs that a client could ask of a volume and that berth has no route for.
var volumeVerbs = []string{"deregister", "expand", "register", "snapshot", "snapshots", "status"}

// raw reports whether rest, the path behind the prefix, is an ID that no suffix of a route follows.
func (f family) raw(rest string) bool {
	verb := rest[strings.LastIndexByte(rest, '/')+1:]
	return f.prefix == volumePrefix && verb != "" && !slices.Contains(volumeVerbs, verb)
}

// families are found among the routes, so that no other place names a path.
var families = sync.OnceValue(findFamilies)

func findFamilies() []family {
	var fs []family
	for _, prefix := range slashed {
		f := family{prefix: prefix}
		for _, r := range Routes() {
			if suffix, ok := strings.CutPrefix(r.Path, prefix+"{id}"); ok && suffix != "" {
				f.suffixes = append(f.suffixes, suffix)
			}
		}
		fs = append(fs, f)
	}
	return fs
}

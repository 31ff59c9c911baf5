package api

import (
	"net/url"
	"strings"
)

// escapeID lets an ID with raw slashes be one segment of the path: clients of the dialect escape the IDs
// of jobs, and send those of volumes as they are. What follows the ID is known from the routes, so
// /v1/volume/csi/a/b/create is the volume a/b; /v1/job/a%2Fcreate stays the job a/create.
func escapeID(u *url.URL) {
	path := u.EscapedPath()
	for _, f := range families {
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

// slashed are the prefixes whose IDs may hold slashes.
var slashed = []string{"/v1/job/", "/v1/volume/csi/", "/v1/plugin/csi/"}

// families are found in the table of routes, so that it is the only place to name a path.
var families = findFamilies()

func findFamilies() []family {
	var fs []family
	for _, prefix := range slashed {
		f := family{prefix: prefix}
		for _, r := range Routes {
			if suffix, ok := strings.CutPrefix(r.Path, prefix+"{id}"); ok && suffix != "" {
				f.suffixes = append(f.suffixes, suffix)
			}
		}
		fs = append(fs, f)
	}
	return fs
}

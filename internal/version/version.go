// Package version says which berth this is.
package version

import "runtime/debug"

// Version is the release; the build may set it with -ldflags "-X berth/internal/version.Version=1.2.3".
var Version = "0.1.0-dev"

// Revision is the commit that the binary was built from, with "+changes" when there were any; "" when the
// build did not record it.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision, changes string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = "+changes"
		}
	}
	if revision == "" {
		return ""
	}
	return revision[:min(12, len(revision))] + changes
}

// Package version holds the version and the revision of this build.
package version

import "runtime/debug"

// Version is the release. A build sets it with -ldflags "-X berth/internal/version.Version=1.2.3".
var Version = "0.1.0-dev"

// Revision returns the commit of the build, followed by "+changes" if the tree differed from it. It returns
// "" if the build did not record its commit.
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

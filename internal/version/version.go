// Package version holds the version and the revision of this build. It is small because the agent, the
// commands and the packaging all name the build.
package version

import "runtime/debug"

// Version is the release that this is, or becomes.
const Version = "0.1.0"

// described is the name that git gives the commit of the build. A build sets it with
// -ldflags "-X berth/internal/version.described=...".
var described string

// Revision returns the commit of the build. A mark follows it if the tree differed from it: "-dirty" from
// git, "+changes" from the compiler. It returns "" if the build did not record its commit.
func Revision() string {
	if described != "" {
		return described
	}

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

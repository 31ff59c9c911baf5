package taskfiles

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

var (
	forcedForm = field.Pattern(`^([A-Za-z0-9]+)::(.*)$`)
	scpForm    = field.Pattern(`^[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+:`)
	hostedForm = field.Pattern(`^(github\.com|gitlab\.com|bitbucket\.org)/`)
	gitRefForm = field.Pattern(`^[^-\x00-\x20\x7f][^\x00-\x20\x7f]*$`)
)

// Getter returns the protocol of the source, http, https, git or file, "" if only the node knows it. Any
// other protocol is invalid.
func Getter(a *structs.TaskArtifact) (string, error) {
	forced, rest := "", a.GetterSource
	if m := forcedForm().FindStringSubmatch(rest); m != nil {
		forced, rest = strings.ToLower(m[1]), m[2]
	}

	found := sourceProtocol(rest)
	switch {
	// The value may bring the protocol along.
	case strings.HasPrefix(a.GetterSource, structs.Placeholder):
		return "", nil
	case forced == "git" && found == "" && !strings.Contains(rest, structs.Placeholder):
		return "", structs.Invalidf("the repository after git:: has no protocol; expected a URL such as " +
			"https://HOST/PATH, or git@HOST:PATH")
	case forced == "git":
		if slices.Contains([]string{"", "http", "https", "ssh", "git"}, found) {
			return "git", checkRepository(rest)
		}

		return "", structs.Invalidf("git repositories are cloned by http, https, ssh and git, not by %s", found)

	// Two protocols for one source contradict each other, except git by another one.
	case forced != "" && found != "" && forced != found:
		return "", unknownProtocol(forced)
	case forced != "":
		found = forced
	}

	switch found {
	case "git", "ssh":
		return "git", checkRepository(rest)
	case "http", "https":
		return found, checkHost(rest)
	case "file":
		return found, nil
	case "":
		if strings.Contains(rest, structs.Placeholder) {
			return "", nil
		}

		return "", structs.Invalidf("it names no protocol; expected a URL such as https://HOST/PATH")
	}

	return "", unknownProtocol(found)
}

// checkRepository checks the address of a repository, a part of which may become an argument of git or of
// ssh. Neither may take it for an option.
func checkRepository(address string) error {
	if forcedForm().MatchString(address) {
		return structs.Invalidf("it names its protocol twice")
	}

	if strings.Contains(address, "://") {
		return cmp.Or(checkHost(address), checkQuery(address))
	}

	if strings.Contains(address, structs.Placeholder) {
		return nil // the node checks the value
	}

	user, rest, _ := strings.Cut(address, "@")
	host, repository, isSCP := strings.Cut(rest, ":")
	if !scpForm().MatchString(address) || !isSCP {
		return checkQuery(address) // a host of hostedForm
	}

	// ssh and git take an argument that begins with - for an option, and some options run commands.
	for name, part := range map[string]string{"user": user, "host": host, "path": repository} {
		if strings.HasPrefix(part, "-") {
			return structs.Invalidf("its %s must not begin with -", name)
		}
	}

	return checkQuery(address)
}

// checkHost checks that a URL has a host that no program takes for an option.
func checkHost(address string) error {
	if strings.Contains(address, structs.Placeholder) {
		return nil // the node checks the value
	}

	u, err := url.Parse(address)
	switch {
	case err != nil:
		return structs.Invalidf("it is not a URL such as https://HOST/PATH") // the error may show a secret
	case u.Hostname() == "":
		return structs.Invalidf("it has no host; expected a URL such as https://HOST/PATH")
	case strings.HasPrefix(u.Hostname(), "-"), strings.HasPrefix(u.User.Username(), "-"):
		return structs.Invalidf("its host and its user must not begin with -")
	// git and ssh get the path as an argument, and HTTP does not.
	case u.Scheme != "http" && u.Scheme != "https" && strings.HasPrefix(strings.TrimLeft(u.Path, "/~"), "-"):
		return structs.Invalidf("its path must not begin with -")
	}

	return nil
}

// checkListed checks that the query of a source names no repository as a list of checksums.
func checkListed(source string) error {
	_, query, _ := strings.Cut(source, "?")
	values, _ := url.ParseQuery(query) // as the node reads it, without its faulty parts
	for _, sum := range values["checksum"] {
		list, isFile := strings.CutPrefix(sum, "file:")

		// The list is downloaded, too, and a repository in its place would be cloned.
		if isFile && !strings.Contains(list, structs.Placeholder) && !isList(list) {
			return structs.Invalidf("its checksum must be file: with the URL of a list of checksums by http, https or file")
		}
	}

	return nil
}

// checkQuery checks the options that git gets of the query of a source.
func checkQuery(address string) error {
	_, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return structs.Invalidf("the text after ? is not of the form key=value&key=value")
	}

	for _, ref := range values["ref"] {
		if ref != "" && !isGitRef(ref) {
			return structs.Invalidf("ref %s", gitRefRule)
		}
	}

	return nil
}

// isGitRef reports whether a text may be a ref. Only the node knows the value of a placeholder.
func isGitRef(ref string) bool {
	// The beginning of the text may be fixed all the same.
	if strings.Contains(ref, structs.Placeholder) {
		return !strings.HasPrefix(ref, "-")
	}
	return gitRefForm().MatchString(ref)
}

// checkSubdirectory checks the part of a source that selects a directory of an archive or a repository: that
// after //, or after the repository of hostedForm. No program may take it for an option.
func checkSubdirectory(source string) error {
	source, _, _ = strings.Cut(source, "?")
	if m := forcedForm().FindStringSubmatch(source); m != nil {
		source = m[2]
	}

	_, address, isURL := strings.Cut(source, "://")
	if !isURL {
		address = source
	}

	_, subdirectory, found := strings.Cut(address, "//")

	// After the repository of a known host, the rest of the path is the subdirectory.
	parts := strings.SplitN(address, "/", 4) // host, owner, repository
	if !found && hostedForm().MatchString(source) && len(parts) == 4 {
		subdirectory = parts[3]
	}

	// An escaped - is one for the program.
	plain, err := url.PathUnescape(subdirectory)
	if err != nil {
		plain = subdirectory
	}

	if strings.HasPrefix(path.Clean("/"+plain), "/-") {
		return structs.Invalidf("its subdirectory must not begin with -")
	}

	return nil
}

// gitRefRule says which values ref has.
const gitRefRule = "must be the name of a branch, tag or commit, without white space and not begin with -"

// unknownProtocol rejects a protocol, with the remedy for protocols of storage services.
func unknownProtocol(name string) error {
	if slices.Contains([]string{"s3", "gcs", "gs"}, name) {
		return structs.Invalidf("berth has no client of the storage service %.20s; "+
			"use the https address of the object, presigned if it is not public", name)
	}
	return structs.Invalidf("berth does not download by %.20s; expected http, https, git or file", name)
}

// sourceProtocol returns the protocol of a source without a forced getter, "" if it names none.
func sourceProtocol(source string) string {
	scheme, _, isURL := strings.Cut(source, "://")
	again := forcedForm().FindStringSubmatch(source)
	switch {
	case again != nil:
		return strings.ToLower(again[1])
	// Only the node knows a protocol that is a placeholder.
	case isURL && !strings.Contains(scheme, structs.Placeholder):
		return strings.ToLower(scheme)
	case scpForm().MatchString(source), hostedForm().MatchString(source):
		return "git"
	case strings.HasPrefix(source, "/"), strings.HasPrefix(source, "./"), strings.HasPrefix(source, "../"):
		return "file"
	}

	return ""
}

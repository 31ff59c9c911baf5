package structs

import (
	"cmp"
	"encoding/hex"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
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

var (
	forcedForm = pattern(`^([A-Za-z0-9]+)::(.*)$`)
	scpForm    = pattern(`^[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+:`)
	hostedForm = pattern(`^(github\.com|gitlab\.com|bitbucket\.org)/`)
	headerForm = pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$")
	gitRefForm = pattern(`^[^-\x00-\x20\x7f][^\x00-\x20\x7f]*$`)
	inHeader   = pattern(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// Getter returns the protocol of the source, http, https, git or file, "" if only the node knows it. Any
// other protocol is invalid.
func (a *TaskArtifact) Getter() (string, error) {
	forced, rest := "", a.GetterSource
	if m := forcedForm().FindStringSubmatch(rest); m != nil {
		forced, rest = strings.ToLower(m[1]), m[2]
	}

	found := sourceProtocol(rest)
	switch {
	case strings.HasPrefix(a.GetterSource, Placeholder):
		return "", nil
	case forced == "git" && found == "" && !strings.Contains(rest, Placeholder):
		return "", Invalidf("the repository after git:: has no protocol; expected a URL such as " +
			"https://HOST/PATH, or git@HOST:PATH")
	case forced == "git":
		if slices.Contains([]string{"", "http", "https", "ssh", "git"}, found) {
			return "git", checkRepository(rest)
		}
		return "", Invalidf("git repositories are cloned by http, https, ssh and git, not by %s", found)

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
		if strings.Contains(rest, Placeholder) {
			return "", nil
		}
		return "", Invalidf("it names no protocol; expected a URL such as https://HOST/PATH")
	}

	return "", unknownProtocol(found)
}

// checkRepository checks the address of a repository, a part of which may become an argument of git or of
// ssh. Neither may take it for an option.
func checkRepository(address string) error {
	if forcedForm().MatchString(address) {
		return Invalidf("it names its protocol twice")
	}

	if strings.Contains(address, "://") {
		return cmp.Or(checkHost(address), checkQuery(address))
	}

	if strings.Contains(address, Placeholder) {
		return nil // the node checks the value
	}

	user, rest, _ := strings.Cut(address, "@")
	host, repository, isSCP := strings.Cut(rest, ":")
	if !scpForm().MatchString(address) || !isSCP {
		return checkQuery(address) // a host of hostedForm
	}

	for name, part := range map[string]string{"user": user, "host": host, "path": repository} {
		if strings.HasPrefix(part, "-") {
			return Invalidf("its %s must not begin with -", name)
		}
	}

	return checkQuery(address)
}

// checkHost checks that a URL has a host that no program takes for an option.
func checkHost(address string) error {
	if strings.Contains(address, Placeholder) {
		return nil // the node checks the value
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return Invalidf("it is not a URL such as https://HOST/PATH") // the error may show a secret
	case u.Hostname() == "":
		return Invalidf("it has no host; expected a URL such as https://HOST/PATH")
	case strings.HasPrefix(u.Hostname(), "-"), strings.HasPrefix(u.User.Username(), "-"):
		return Invalidf("its host and its user must not begin with -")
	case u.Scheme != "http" && u.Scheme != "https" && strings.HasPrefix(strings.TrimLeft(u.Path, "/~"), "-"):
		return Invalidf("its path must not begin with -")
	}
	return nil
}

// checkListed checks that the query of a source names no repository as a list of checksums.
func checkListed(source string) error {
	_, query, _ := strings.Cut(source, "?")
	values, _ := url.ParseQuery(query) // as the node reads it, without its faulty parts
	for _, sum := range values["checksum"] {
		list, isFile := strings.CutPrefix(sum, "file:")
		if isFile && !strings.Contains(list, Placeholder) && !isList(list) {
			return Invalidf("its checksum must be file: with the URL of a list of checksums by http, https " +
				"or file")
		}
	}
	return nil
}

// checkQuery checks the options that git gets of the query of a source.
func checkQuery(address string) error {
	_, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return Invalidf("the text after ? is not of the form key=value&key=value")
	}
	for _, ref := range values["ref"] {
		if ref != "" && !isGitRef(ref) {
			return Invalidf("ref %s", gitRefRule)
		}
	}
	return nil
}

// isGitRef reports whether a text may be a ref. Only the node knows the value of a placeholder.
func isGitRef(ref string) bool {
	if strings.Contains(ref, Placeholder) {
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
	parts := strings.SplitN(address, "/", 4) // host, owner, repository
	if !found && hostedForm().MatchString(source) && len(parts) == 4 {
		subdirectory = parts[3]
	}

	plain, err := url.PathUnescape(subdirectory)
	if err != nil {
		plain = subdirectory
	}

	if strings.HasPrefix(path.Clean("/"+plain), "/-") {
		return Invalidf("its subdirectory must not begin with -")
	}

	return nil
}

// gitRefRule says which values ref has.
const gitRefRule = "must be the name of a branch, tag or commit, without white space and not begin with -"

func unknownProtocol(name string) error {
	if slices.Contains([]string{"s3", "gcs", "gs"}, name) {
		return Invalidf("berth has no client of the storage service %.20s; use the https address of the object, "+
			"presigned if it is not public", name)
	}
	return Invalidf("berth does not download by %.20s; expected http, https, git or file", name)
}

// sourceProtocol returns the protocol of a source without a forced getter, "" if it names none.
func sourceProtocol(source string) string {
	scheme, _, isURL := strings.Cut(source, "://")
	again := forcedForm().FindStringSubmatch(source)
	switch {
	case again != nil:
		return strings.ToLower(again[1])
	case isURL && !strings.Contains(scheme, Placeholder):
		return strings.ToLower(scheme)
	case scpForm().MatchString(source), hostedForm().MatchString(source):
		return "git"
	case strings.HasPrefix(source, "/"), strings.HasPrefix(source, "./"), strings.HasPrefix(source, "../"):
		return "file"
	}
	return ""
}

// Validate checks an artifact. The faults do not show its headers and options, which may be secret.
func (a *TaskArtifact) Validate() error {
	f := newFieldErrors("artifact")
	a.validate(f)
	return f.err()
}

func (a *TaskArtifact) validate(f fieldErrors) {
	f.require(a.GetterSource != "", "source is required")
	f.checkText("source", a.GetterSource)
	if a.GetterSource != "" && len(a.GetterSource) <= MaxText {
		_, err := a.Getter()
		err = cmp.Or(err, checkSubdirectory(a.GetterSource), checkListed(a.GetterSource))
		f.require(err == nil, "source: %v", err)
	}
	f.checkOneOf("mode", a.GetterMode, []string{ArtifactAny, ArtifactFile, ArtifactDir})
	a.validateDest(f)
	a.validateOptions(f)
	a.validateHeaders(f)
}

func (a *TaskArtifact) validateDest(f fieldErrors) {
	dest := a.RelativeDest
	f.checkText("destination", dest)
	if strings.Contains(dest, Placeholder) || len(dest) > MaxText {
		return // only the node knows the value
	}
	clean := path.Clean(dest)
	shared := clean == "../alloc" || strings.HasPrefix(clean, "../alloc/")
	f.require(shared || clean != ".." && !strings.HasPrefix(clean, "../"),
		"destination %q must be within the task's directory, or within ../alloc", dest)
}

func (a *TaskArtifact) validateOptions(f fieldErrors) {
	options := a.GetterOptions
	f.checkBytes("options", PairBytes(options), MaxArtifactBytes)
	if f.atMost("options", len(options), MaxArtifactPairs) < len(options) {
		return
	}

	for _, key := range slices.Sorted(maps.Keys(options)) {
		value := options[key]
		f.require(key != "", "options: a key is empty")
		f.require(isText(key) && isText(value), "options: %q must be text in UTF-8 without NUL", key)
		if key == "ref" {
			f.require(isGitRef(value), "options: ref %s", gitRefRule)
		}

		if strings.Contains(value, Placeholder) {
			continue
		}

		switch key {
		case "checksum":
			f.require(isChecksum(value), "options: checksum must be md5:, sha1:, sha256: or sha512: with its "+
				"hexadecimal digits, or file: with the URL of a list of checksums by http, https or file")
		case "archive":
			_, err := strconv.ParseBool(value)
			f.require(err == nil || slices.Contains(artifactArchives, value),
				"options: archive %q must be false or %s", value, oneOf(artifactArchives))
		case "depth":
			_, err := strconv.ParseUint(value, 10, 31)
			f.require(err == nil, "options: depth %q must be a number", value)
		}
	}
}

// isChecksum reports whether a text is a checksum, with or without its kind.
func isChecksum(text string) bool {
	kind, digits, typed := strings.Cut(text, ":")
	if kind == "file" {
		return isList(digits)
	}

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

func (a *TaskArtifact) validateHeaders(f fieldErrors) {
	headers := a.GetterHeaders
	f.checkBytes("headers", PairBytes(headers), MaxArtifactBytes)
	if f.atMost("headers", len(headers), MaxArtifactPairs) < len(headers) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		f.require(headerForm().MatchString(key), "headers: %q is not the name of a header", key)
		f.require(inHeader().MatchString(headers[key]),
			"headers: the value of %q must be one line without control characters", key)
	}
}

func (t *Task) validateArtifacts(f fieldErrors) {
	for i, a := range firstOf(f, "artifacts", t.Artifacts, MaxArtifacts) {
		if a == nil {
			f.addf("artifact %d is null", i+1)
			continue
		}
		f := f.at("artifact %d", i+1)
		a.validate(f)
		if t.Driver == driverExec {
			f.checkInRoot(strings.TrimLeft(a.RelativeDest, "/"))
		}
	}
}

package lookup

import (
	"encoding/json"
	"regexp"
	"strings"

	"berth/structs"
)

// The bounds of the values that a template writes to Vault: their number, and the bytes of all.
const (
	maxWritten      = 64
	maxWrittenBytes = 16 << 10
)

// versionForm is the version of a secret in its path: path?version=3.
var versionForm = regexp.MustCompile(`^version=([0-9]{1,9})$`)

// ParseSecret parses the arguments of the function secret: a path, path?version=N, or a path and the values
// NAME=VALUE that are written there. The caller checks the path.
func ParseSecret(path string, values []string) (Query, error) {
	path, version, versioned := strings.Cut(path, "?")
	q := Query{Kind: VaultSecret, Name: strings.Trim(path, "/")}
	if versioned {
		found := versionForm.FindStringSubmatch(version)
		if found == nil || len(values) > 0 {
			return q, structs.Invalidf("secret takes a path, or path?version=N, or a path and values to write")
		}
		q.Tag = found[1]
	}

	if len(values) == 0 {
		return q, nil
	}

	q.Kind = VaultWrite
	var err error
	q.Values, err = written(values)
	return q, err
}

// ParseSecrets parses the path of the function secrets.
func ParseSecrets(path string) Query { return Query{Kind: VaultNames, Name: strings.Trim(path, "/")} }

// written returns the values NAME=VALUE as an object in JSON.
func written(values []string) (string, error) {
	size := 0
	object := map[string]string{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return "", structs.Invalidf("secret: %q is no NAME=VALUE", structs.Cut(v, structs.MaxQuoted))
		}
		object[name] = value
		size += len(v)
	}

	if len(object) > maxWritten || size > maxWrittenBytes {
		return "", structs.Invalidf("secret writes at most %d values of %d bytes in all", maxWritten,
			maxWrittenBytes)
	}

	text, err := json.Marshal(object) // with its names in order
	return string(text), err
}

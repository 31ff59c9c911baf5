package template

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"berth/internal/gotext"
)

func (r *rendering) encodings() gotext.Functions {
	return gotext.Functions{
		"base64Decode":    base64Decode,
		"base64Encode":    encodeWith(base64.StdEncoding),
		"base64URLDecode": base64URLDecode,
		"base64URLEncode": encodeWith(base64.URLEncoding),

		"md5sum":        md5sum,
		"sha256Hex":     func(s string) (string, error) { return digest(s), nil },
		"hmacSHA256Hex": hmacSHA256Hex,

		"parseJSON":             r.parseJSON,
		"toJSON":                func(v any) (string, error) { return toJSON(v, "", true) },
		"toJSONPretty":          func(v any) (string, error) { return toJSON(v, "  ", true) },
		"toUnescapedJSON":       func(v any) (string, error) { return toJSON(v, "", false) },
		"toUnescapedJSONPretty": func(v any) (string, error) { return toJSON(v, "  ", false) },

		"parseYAML": r.parseYAML,
		"toYAML":    toYAML,
		"toTOML":    toTOML,
	}
}

func encodeWith(e *base64.Encoding) func(string) (string, error) {
	return func(s string) (string, error) { return e.EncodeToString([]byte(s)), nil }
}

func base64Decode(s string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	return string(b), err
}

// base64URLDecode also decodes a text without padding.
func base64URLDecode(s string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	return string(b), err
}

func md5sum(s string) (string, error) {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:]), nil
}

func hmacSHA256Hex(message, key string) (string, error) {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(message))
	return hex.EncodeToString(h.Sum(nil)), nil
}

// A decoder takes, for each byte of its text, at most about these bytes of memory.
const (
	memoryOfJSON = 16
	memoryOfYAML = 64
)

func (r *rendering) parseJSON(s string) (any, error) {
	var v any = map[string]any{}

	// As in the dialect, the empty text has no entries.
	if s == "" {
		return v, nil
	}
	err := r.chargeTimes(len(s), memoryOfJSON)
	if err == nil {
		err = json.Unmarshal([]byte(s), &v)
	}
	return v, err
}

func (r *rendering) parseYAML(s string) (any, error) {
	var v any = map[string]any{}
	if s == "" {
		return v, nil
	}
	err := r.chargeTimes(len(s), memoryOfYAML)
	if err == nil {
		err = yaml.Unmarshal([]byte(s), &v)
	}
	return v, err
}

func toJSON(v any, indent string, escape bool) (string, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", indent)
	e.SetEscapeHTML(escape)
	err := e.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

func toYAML(v any) (string, error) {
	b, err := yaml.Marshal(v)
	return string(bytes.TrimSpace(b)), err
}

func toTOML(v any) (string, error) {
	var out bytes.Buffer
	err := toml.NewEncoder(&out).Encode(v)
	return string(bytes.TrimSpace(out.Bytes())), err
}

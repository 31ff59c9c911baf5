package nomad

import (
	"encoding/json"
	"slices"
	"strings"
)

// secretFields are the fields of a job whose texts may be secrets, with all that is in them.
var secretFields = []string{
	"Actions", "Body", "ConsulToken", "EmbeddedTmpl", "Env", "GetterHeaders", "GetterOptions", "Header",
	"Payload", "VaultToken", "auth", "password", "token",
}

// minSecret is the length of the shortest text that is hidden: shorter ones are parts of words.
const minSecret = 4

// hideValues removes the texts of secret fields of a job from a sentence on the job.
func hideValues(text string, src []byte) string {
	var tree any
	if json.Unmarshal(src, &tree) != nil {
		return "it is not the JSON of a job"
	}
	var secrets []string
	collect(tree, false, &secrets)
	// A secret may be a part of another one.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[hidden]")
	}
	return text
}

// collect adds the texts of secret fields to a list. inside is set within such a field.
func collect(tree any, inside bool, to *[]string) {
	switch t := tree.(type) {
	case map[string]any:
		for key, value := range t {
			collect(value, inside || slices.Contains(secretFields, key), to)
		}
	case []any:
		for _, value := range t {
			collect(value, inside, to)
		}
	case string:
		if inside && len(t) >= minSecret {
			*to = append(*to, t)
		}
	}
}

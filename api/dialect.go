package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"berth/internal/strictjson"
	"berth/structs"
)

// dialectDefaults has the values that clients of the dialect fill into fields that berth does not have. A
// field with exactly this value asks for nothing.
var dialectDefaults = map[string]string{
	"Enabled": `true`,      // of logs; berth has Disabled
	"Cluster": `"default"`, // of services, in Consul
}

// dialectDefault reports whether an unknown field has the default of the dialect.
func dialectDefault(field string, value json.RawMessage) bool {
	text, ok := dialectDefaults[field]
	if !ok {
		return false
	}
	var got, want any
	return json.Unmarshal(value, &got) == nil &&
		json.Unmarshal([]byte(text), &want) == nil &&
		reflect.DeepEqual(got, want)
}

// withoutEffect has the fields of a job that the dialect itself ignores, with the reasons.
var withoutEffect = map[string]string{
	"IOPS":       "operations of disks are neither reserved nor limited",
	"MBits":      "bandwidth is neither reserved nor limited",
	"Notes":      "nothing shows the notes of a check",
	"VaultGrace": "nothing reads it any more",
}

// ignoredFields collects a warning for each field of withoutEffect.
type ignoredFields []string

// accept reports whether an unknown field may be dropped.
func (i *ignoredFields) accept(field string, value json.RawMessage) bool {
	reason, ignored := withoutEffect[field]
	if ignored && len(*i) < structs.MaxFaults {
		line := fmt.Sprintf("%s %s has no effect: %s", field, structs.Cut(string(value), structs.MaxQuoted), reason)
		if !slices.Contains(*i, line) {
			*i = append(*i, line)
		}
	}
	return ignored || dialectDefault(field, value)
}

// addTo adds the warnings to others, a line each.
func (i ignoredFields) addTo(warnings *string) {
	lines := append([]string{*warnings}, i...)
	*warnings = strings.Trim(strings.Join(lines, "\n"), "\n")
}

// DecodeJob decodes one job from the JSON of the API, as strictly as the API does. The warnings name fields
// without an effect.
func DecodeJob(src []byte) (job *structs.Job, warnings []string, err error) {
	job = &structs.Job{}
	var ignored ignoredFields
	err = strictjson.Decode(src, job, ignored.accept)
	if err != nil {
		return nil, nil, err
	}
	return job, ignored, nil
}

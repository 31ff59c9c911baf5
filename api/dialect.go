package api

import (
	"encoding/json"
	"reflect"

	"berth/internal/strictjson"
	"berth/structs"
)

// dialectDefaults has the values that clients of the dialect fill into fields that berth does not have. A
// field with exactly this value asks for nothing.
var dialectDefaults = map[string]string{
	"Update": `{"Stagger":30000000000,"MaxParallel":1,"HealthCheck":"checks","MinHealthyTime":10000000000,
		"HealthyDeadline":300000000000,"ProgressDeadline":600000000000,"AutoRevert":false,"Canary":0,
		"AutoPromote":false}`,
	"Migrate": `{"MaxParallel":1,"HealthCheck":"checks","MinHealthyTime":10000000000,
		"HealthyDeadline":300000000000}`,
	"Enabled": `true`, // of logs; berth has Disabled
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

// DecodeJob decodes one job from the JSON of the API, as strictly as the API does.
func DecodeJob(src []byte) (*structs.Job, error) {
	job := &structs.Job{}
	if err := strictjson.Decode(src, job, dialectDefault); err != nil {
		return nil, err
	}
	return job, nil
}

package api

import (
	"encoding/json"
	"reflect"
)

// dialectDefaults are values that clients of the dialect fill in by themselves into fields that berth does
// not have: where such a field has exactly this value, its author asked for nothing.
var dialectDefaults = map[string]string{
	"Update": `{"Stagger":30000000000,"MaxParallel":1,"HealthCheck":"checks","MinHealthyTime":10000000000,
		"HealthyDeadline":300000000000,"ProgressDeadline":600000000000,"AutoRevert":false,"Canary":0,"AutoPromote":false}`,
	"Migrate": `{"MaxParallel":1,"HealthCheck":"checks","MinHealthyTime":10000000000,"HealthyDeadline":300000000000}`,
	"Enabled": `true`, // of logs; berth has Disabled
}

// dialectDefault reports whether a field that berth does not know has the dialect's default.
func dialectDefault(field string, value json.RawMessage) bool {
	text, ok := dialectDefaults[field]
	if !ok {
		return false
	}
	var got, want any
	return json.Unmarshal(value, &got) == nil && json.Unmarshal([]byte(text), &want) == nil && reflect.DeepEqual(got, want)
}

package nodecalls

import (
	"berth/structs"
	"slices"
	"strings"
)

// ClientDriverValidate makes a node check configs of tasks by the schema of one of its drivers.
var ClientDriverValidate = structs.Read[ClientDriverValidateRequest, ClientDriverValidateResponse](
	"ClientDriver.Validate")

// ClientDriverValidateRequest has the configs of several tasks.
type ClientDriverValidateRequest struct {
	Driver  string
	Configs []map[string]any
	structs.QueryOptions
}

// ClientDriverValidateResponse has the faults of each config, "" for a valid one. LeavesReferences reports
// that a value with a reference is no fault of its config. Nodes of earlier versions do not say so.
type ClientDriverValidateResponse struct {
	Faults           []string
	LeavesReferences bool
	structs.QueryMeta
}

// HasReference reports whether a value of a task's config has a reference to a variable of the node or the
// task: only the node knows the value.
func HasReference(value any) bool {
	switch v := value.(type) {
	case string:
		return strings.Contains(v, "${")
	case []any:
		return slices.ContainsFunc(v, HasReference)
	case map[string]any:
		for _, inner := range v {
			if HasReference(inner) {
				return true
			}
		}
	}
	return false
}

// UnknownField follows the path of a field that the config of a task may not have. The fault then belongs to
// the name of the field, and otherwise to its value.
const UnknownField = "unknown field"

// KindOfValue returns the kind of a value of a task's config in words.
func KindOfValue(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return "a number"
}

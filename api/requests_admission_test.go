package api_test

import (
	"berth/structs"
	"berth/structs/admission"
)

// admissionCalls has the requests to the routes of admission rules.
func admissionCalls() map[string]routeCall {
	rule := &admission.Rule{Name: "r", On: "job", Mode: "deny", Expression: "true", Message: "m"}
	body := `{"Name":"r","On":"job","Mode":"deny","Expression":"true","Message":"m"}`
	return map[string]routeCall{
		"PUT /v1/admission/rule/{id}": {
			path:    "/v1/admission/rule/r",
			body:    body,
			rpc:     "Admission.PutRule",
			request: &admission.RulePutRequest{Rule: rule},
		},
		"PUT /v1/admission/test": {
			path: "/v1/admission/test",
			body: `{"Name":"r","Rule":` + body + `,"Job":{"ID":"web"}}`,
			rpc:  "Admission.TestRule",
			request: &admission.RuleTestRequest{
				Name: "r",
				Rule: rule,
				Job:  &structs.Job{ID: "web"},
			},
		},
	}
}

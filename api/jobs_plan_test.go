package api_test

import (
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/structs"
)

// The plan of a job has the index of the stored job twice, and no next launch is null, as in the dialect.
func TestJobPlan_HasTheShapeOfTheDialect(t *testing.T) {
	s := newServer(t)
	at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, next := range map[string]time.Time{
		`null`:                   {},
		`"2027-01-02T03:04:05Z"`: at,
	} {
		apitest.Answer(s.caller, structs.JobPlan, structs.JobPlanResponse{
			JobModifyIndex:     7,
			NextPeriodicLaunch: next,
			QueryMeta:          structs.QueryMeta{Index: 9},
		})
		_, body := s.do(t, "PUT", "/v1/job/j/plan", `{"Job":{"ID":"j"}}`)
		for _, field := range []string{`"Index":7,`, `"JobModifyIndex":7,`, `"NextPeriodicLaunch":` + want + `,`} {
			if !strings.Contains(body, field) {
				t.Errorf("the field %s is missing in %s", field, body)
			}
		}
	}
}

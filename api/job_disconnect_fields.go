package api

import (
	"encoding/json"
	"fmt"
	"time"

	"berth/structs"
)

// formerGroup has the fields that task groups of the dialect had before Disconnect.
type formerGroup struct {
	MaxClientDisconnect       *time.Duration
	StopAfterClientDisconnect *time.Duration
	PreventRescheduleOnLost   bool
}

// formerFieldName reports whether a field of a task group is a former one, and the name of the field that
// took its place.
func formerFieldName(field string) (now string, former bool) {
	switch field {
	case "MaxClientDisconnect":
		return "Disconnect.LostAfter", true
	case "StopAfterClientDisconnect":
		return "Disconnect.StopOnClientAfter", true
	case "PreventRescheduleOnLost":
		return "Disconnect.Replace, negated", true
	}
	return "", false
}

// strategy returns what the fields ask for, and how many of them are set.
func (g *formerGroup) strategy() (s *structs.DisconnectStrategy, fields int) {
	s = &structs.DisconnectStrategy{}
	if isSetDuration(g.MaxClientDisconnect) {
		s.LostAfter = *g.MaxClientDisconnect
		fields++
	}
	if isSetDuration(g.StopAfterClientDisconnect) {
		s.StopOnClientAfter = g.StopAfterClientDisconnect
		fields++
	}
	if g.PreventRescheduleOnLost {
		s.Replace = new(false)
		fields++
	}
	return s, fields
}

// isSetDuration reports whether a duration is set. Clients of the dialect send 0 for one that is not.
func isSetDuration(d *time.Duration) bool { return d != nil && *d != 0 }

const formerFieldNames = "MaxClientDisconnect, StopAfterClientDisconnect or PreventRescheduleOnLost"

// formerJobFields is a job with the former fields of its groups.
type formerJobFields struct{ TaskGroups []*formerGroup }

// addFormerFields sets Disconnect in the groups of a job that has former fields in its source, which is the
// job or a body with it. used is the number of such fields in the source.
func addFormerFields(src []byte, job *structs.Job, used int) error {
	var body struct {
		Job *formerJobFields
		formerJobFields
	}
	err := json.Unmarshal(src, &body)
	if err != nil {
		return structs.Invalidf("the former fields of a task group: %w", err)
	}
	if body.Job == nil {
		body.Job = &body.formerJobFields
	}

	for i, g := range body.Job.TaskGroups {
		if g == nil || i >= len(job.TaskGroups) || job.TaskGroups[i] == nil {
			continue
		}
		s, fields := g.strategy()
		if fields == 0 {
			continue
		}
		used -= fields
		if job.TaskGroups[i].Disconnect != nil {
			return structs.Invalidf("TaskGroups[%d]: Disconnect beside %s, its former names; expected only Disconnect", i, formerFieldNames)
		}
		job.TaskGroups[i].Disconnect = s
	}
	if used != 0 {
		return structs.Invalidf("%s outside of a task group; expected Disconnect in a task group", formerFieldNames)
	}
	return nil
}

// fitsFormerField reports whether a former field has a value of the right type.
func fitsFormerField(field string, value json.RawMessage) bool {
	object := fmt.Appendf(nil, "{%q: %s}", field, value)
	return json.Unmarshal(object, &formerGroup{}) == nil
}

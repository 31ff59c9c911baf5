package views

import (
	"cmp"
	"fmt"
	"time"

	"berth/api/show"
	"berth/structs"
)

// JobColumns are the titles of JobRow.
var JobColumns = []string{
	"ID", "Namespace", "Type", "Priority", "Status", "Running", "Starting", "Queued", "Failed", "Lost",
	"Submitted",
}

// jobTones are the tones of the states of a job.
var jobTones = map[string]Tone{
	structs.JobRunning: Good,
	structs.JobPending: Busy,
}

// JobRow shows a job of a list, with the sums of its groups.
func JobRow(j *structs.JobListStub) Row {
	var sum structs.TaskGroupSummary
	if j.JobSummary != nil {
		for _, g := range j.JobSummary.Summary {
			sum.Running += g.Running
			sum.Starting += g.Starting
			sum.Queued += g.Queued
			sum.Failed += g.Failed
			sum.Lost += g.Lost
		}
	}
	return Row{
		Key: j.Namespace + "/" + j.ID,
		Cells: []Cell{
			link(j.ID, To(JobPath, j.Namespace, j.ID)),
			text(j.Namespace),
			text(JobType(j)),
			number(j.Priority),
			toned(j.Status, jobTones),
			number(sum.Running),
			number(sum.Starting),
			count(sum.Queued, Busy),
			count(sum.Failed, Bad),
			count(sum.Lost, Bad),
			age(j.SubmitTime),
		},
	}
}

// count makes a cell of a number that has a tone unless it is 0.
func count(n int, tone Tone) Cell {
	c := number(n)
	if n > 0 {
		c.Tone = tone
	}
	return c
}

// JobType returns the type of a job, and whether it starts others.
func JobType(j *structs.JobListStub) string {
	switch {
	case j.Periodic:
		return j.Type + ", periodic"
	case j.ParameterizedJob:
		return j.Type + ", parameterized"
	}
	return j.Type
}

// GroupTable shows the allocations of a job by group and state.
func GroupTable(s *structs.JobSummary) Table {
	t := Table{
		Caption: "Groups",
		Columns: []string{"Group", "Queued", "Starting", "Running", "Complete", "Failed", "Lost", "Unknown"},
		Empty:   "The job has no groups.",
	}
	if s == nil {
		return t
	}
	for name, g := range show.Sorted(s.Summary) {
		t.Rows = append(t.Rows, Row{
			Key: name,
			Cells: []Cell{
				text(name), count(g.Queued, Busy), number(g.Starting), number(g.Running), number(g.Complete),
				count(g.Failed, Bad), count(g.Lost, Bad), count(g.Unknown, Bad),
			},
		})
	}
	return t
}

// deploymentTones are the tones of the states of a deployment.
var deploymentTones = map[string]Tone{
	structs.DeploymentRunning:    Busy,
	structs.DeploymentPaused:     Busy,
	structs.DeploymentFailed:     Bad,
	structs.DeploymentSuccessful: Good,
	structs.DeploymentBlocked:    Busy,
}

var deploymentColumns = show.Deployments.Pick("ID|Version|Status|Description=Reason|Healthy|Modified=Changed")

// DeploymentTable shows the deployments of a job.
func DeploymentTable(all []*structs.Deployment) Table {
	t := Table{
		Caption: "Deployments",
		Columns: deploymentColumns.Titles,
		Empty:   "The job has no deployments.",
	}
	for _, d := range all {
		m := marks{"Status": toned(d.Status, deploymentTones)}
		t.Rows = append(t.Rows, Row{Key: d.ID, Cells: cells(deploymentColumns, d, m)})
	}
	return t
}

// AllocColumns are the columns of AllocRow.
var AllocColumns = show.Allocs.Pick("ID|Namespace|Job|Group|Node|Version|Desired|Status|Restarts|Created|" +
	"Modified=Changed")

// allocTones are the tones of the states of an allocation.
var allocTones = map[string]Tone{
	structs.AllocRunning: Good,
	structs.AllocPending: Busy,
	structs.AllocFailed:  Bad,
	structs.AllocLost:    Bad,
	structs.AllocUnknown: Bad,
}

// AllocRow shows an allocation of a list.
func AllocRow(a *structs.AllocListStub) Row {
	node := linkTo(NodePath, "", a.NodeID)
	node.Text = cmp.Or(a.NodeName, node.Text)
	return Row{
		Key: a.ID,
		Cells: cells(AllocColumns, a, marks{
			"ID":       linkTo(AllocPath, a.Namespace, a.ID),
			"Job":      {Link: To(JobPath, a.Namespace, a.JobID)},
			"Node":     node,
			"Status":   toned(a.ClientStatus, allocTones),
			"Restarts": {Tone: toneIf(Busy, show.Restarts(a) > 0)},
		}),
	}
}

// AllocTable shows some allocations.
func AllocTable(all []*structs.AllocListStub) Table {
	t := Table{
		Caption: "Allocations",
		Columns: AllocColumns.Titles,
		Empty:   "There are no allocations.",
	}
	for _, a := range all {
		t.Rows = append(t.Rows, AllocRow(a))
	}
	return t
}

// TaskTable shows the tasks of an allocation.
func TaskTable(states map[string]*structs.TaskState) Table {
	t := Table{
		Caption: "Tasks",
		Columns: []string{"Task", "State", "Restarts", "Started", "Last event"},
		Empty:   "The node has not reported a task yet.",
	}
	for name, s := range show.Sorted(states) {
		if s == nil {
			continue
		}
		state := text(s.State)
		switch {
		case s.Failed:
			state = Cell{Text: s.State + ", failed", Tone: Bad}
		case s.State == "running":
			state.Tone = Good
		}
		started := ""
		if !s.StartedAt.IsZero() {
			started = show.Ago(s.StartedAt)
		}
		t.Rows = append(t.Rows, Row{
			Key: name,
			Cells: []Cell{
				text(name), state, count(int(s.Restarts), Busy), text(started), text(lastEvent(s)),
			},
		})
	}
	return t
}

// lastEvent returns the newest event of a task in words.
func lastEvent(s *structs.TaskState) string {
	if len(s.Events) == 0 {
		return ""
	}
	return eventText(s.Events[len(s.Events)-1])
}

func eventText(e *structs.TaskEvent) string {
	return cmp.Or(e.DisplayMessage, e.Message, e.Type)
}

// EventTable shows the events of a task, the newest first.
func EventTable(task string, s *structs.TaskState) Table {
	t := Table{
		Caption: "Events of task " + task,
		Columns: []string{"Time", "Type", "Text"},
		Empty:   "There are no events.",
	}
	for i := len(s.Events) - 1; i >= 0; i-- {
		e := s.Events[i]
		when := time.Unix(0, e.Time).UTC().Format(time.RFC3339)
		t.Rows = append(t.Rows, Row{
			Key:   fmt.Sprint(i),
			Cells: []Cell{text(when), text(e.Type), text(eventText(e))},
		})
	}
	return t
}

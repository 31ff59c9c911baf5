package validate

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestJob_ChecksWhatStartsOthers(t *testing.T) {
	periodic := func(zone string, specs ...string) func(*structs.Job) {
		return func(j *structs.Job) { j.Periodic = schedule(zone, specs...) }
	}
	parameters := func(p structs.ParameterizedJobConfig) func(*structs.Job) {
		return func(j *structs.Job) { j.ParameterizedJob = &p }
	}
	payloadTo := func(file string) func(*structs.Job) {
		return func(j *structs.Job) {
			j.TaskGroups[0].Tasks[0].DispatchPayload = &structs.DispatchPayloadConfig{File: file}
		}
	}
	for fault, edit := range map[string]func(*structs.Job){
		"": periodic("Asia/Tokyo", "@hourly", "0 0 L * *"),
		"of type batch or sysbatch": func(j *structs.Job) {
			j.Type = structs.JobService
			j.Periodic = schedule("", "@hourly")
		},
		"cron or crons is required": periodic(""),
		"is no cron expression":     periodic("", "61 * * * *"),
		"cron \"\" is no cron":      periodic("", ""),
		"exclude each other": func(j *structs.Job) {
			j.Periodic = schedule("", "@daily")
			j.Periodic.Spec = "@daily"
		},
		`time_zone "Mars/Base" is no`: periodic("Mars/Base", "@daily"),
		`time_zone "Local" is no`:     periodic("Local", "@daily"),
		"payload \"often\"":           parameters(structs.ParameterizedJobConfig{Payload: "often"}),
		"cannot be both": func(j *structs.Job) {
			j.Periodic = schedule("", "@daily")
			j.ParameterizedJob = &structs.ParameterizedJobConfig{}
		},
		"is there twice": parameters(structs.ParameterizedJobConfig{
			MetaRequired: []string{"a"},
			MetaOptional: []string{"a"},
		}),
		"below the local directory":      payloadTo("../x"),
		"file \"\" must be a path below": payloadTo(""),
		"must have at most 191 bytes": func(j *structs.Job) {
			j.ID = strings.Repeat("x", 192)
			j.Periodic = schedule("", "@daily")
		},
	} {
		err := Job(batchJob(edit))
		if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("got %v, want %q", err, fault)
		}
	}
}

func TestDispatch_ChecksItsParameters(t *testing.T) {
	parent := batchJob(func(j *structs.Job) {
		j.Meta = map[string]string{"kept": "1", "region": "eu"}
		j.ParameterizedJob = &structs.ParameterizedJobConfig{
			Payload:      structs.PayloadRequired,
			MetaRequired: []string{"who"},
			MetaOptional: []string{"region"},
		}
	})
	now := time.Unix(1_700_000_000, 0)
	start := func(of *structs.Job, r *structs.JobDispatchRequest) (*structs.Job, error) {
		err := Dispatch(of, r)
		if err != nil {
			return nil, err
		}
		child := of.DispatchedChild(r, now)
		return child, Job(child)
	}
	dispatch := func(payload string, meta map[string]string) (*structs.Job, error) {
		return start(parent, &structs.JobDispatchRequest{
			Payload:          []byte(payload),
			Meta:             meta,
			IDPrefixTemplate: "night",
			Priority:         70,
		})
	}
	child, err := dispatch("data", map[string]string{"who": "me", "region": "us"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(child.ID, "j/dispatch-night-1700000000-") || child.Name != child.ID ||
		child.ParentID != "j" || !child.Dispatched || child.StartsOthers() || string(child.Payload) != "data" ||
		child.Priority != 70 || child.Meta["kept"] != "1" ||
		child.Meta["region"] != "us" || child.Meta["who"] != "me" {
		t.Errorf("the child is %+v", child)
	}
	if parent.Meta["region"] != "eu" || !parent.StartsOthers() {
		t.Error("the parent has changed")
	}
	for fault, try := range map[string]func() (*structs.Job, error){
		"requires a payload": func() (*structs.Job, error) { return dispatch("", map[string]string{"who": "me"}) },
		"at most 16384": func() (*structs.Job, error) {
			return dispatch(strings.Repeat("x", structs.MaxPayload+1), nil)
		},
		`requires a value for "who"`: func() (*structs.Job, error) { return dispatch("x", nil) },
		`has no parameter "more"; it has who, region`: func() (*structs.Job, error) {
			return dispatch("x", map[string]string{"who": "me", "more": "1"})
		},
		"is not parameterized": func() (*structs.Job, error) { return start(child, &structs.JobDispatchRequest{}) },
		"is stopped": func() (*structs.Job, error) {
			stopped := parent.Copy()
			stopped.Stop = true
			return start(stopped, &structs.JobDispatchRequest{})
		},
	} {
		_, err := try()
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("got %v, want %q", err, fault)
		}
	}
}

package template

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/consul/lookup"
	"berth/structs"
)

const varOfJob = "teamnomadVar nomad/jobs/j"

// stored returns the answer for the variable of the job with a password.
func stored(password string) *lookup.Variable {
	v := &lookup.Variable{VariableMeta: lookup.VariableMeta{Path: "nomad/jobs/j", Namespace: "team"}}
	v.Items = lookup.VariableItems{"password": {Key: "password", Value: password}}
	return v
}

func TestVariables_AreFunctionsOfATemplate(t *testing.T) {
	none := (*lookup.Variable)(nil)
	metas := []*lookup.VariableMeta{
		{Path: "nomad/jobs/j"}, {Path: "nomad/jobs/other"}, {Path: "nomad/jobs/j/g/web"},
	}
	answers := map[string]any{
		varOfJob:                          stored("hunter2"),
		"teamnomadVar nomad/jobs/j/g":     none,
		"teamnomadVar nomad/jobs/j/g/web": stored("own"),
		"teamnomadVarList":                metas,
		"teamnomadVarList nomad/jobs/j/g": metas[2:],
	}
	for text, want := range map[string]string{
		`{{ with nomadVar "nomad/jobs/j" }}{{ .password }} {{ .password.Value }}{{ end }}`:                           "hunter2 hunter2",
		`{{ range $k, $v := nomadVar "nomad/jobs/j" }}{{ $k }}={{ $v }}{{ end }}`:                                    "password=hunter2",
		`{{ range (nomadVar "nomad/jobs/j").Tuples }}{{ .K }}={{ .V }}{{ end }}{{ nomadVar "" | len }}`:              "password=hunter20",
		`{{ nomadVar "nomad/jobs/j" | toJSON }}`:                                                                     `{"password":"hunter2"}`,
		`{{ nomadVarExists "nomad/jobs/j" }} {{ nomadVarExists "nomad/jobs/j/g" }} {{ nomadVarExists "" }}`:          "true false false",
		`{{ (nomadVar "nomad/jobs/j/g/web").password }}`:                                                             "own",
		`{{ range nomadVarList }}{{ . }} {{ end }}{{ range nomadVarListSafe "nomad/jobs/j/g" }}{{ .Path }}{{ end }}`: "nomad/jobs/j nomad/jobs/j/g/web nomad/jobs/j/g/web",
	} {
		withAnswers(t, reading(text), func(t *testing.T, fx *fixture, s *source) {
			s.answers = answers
			fx.mustUp()
			fx.CheckFile("web/local/a", want)
		})
	}
}

// The servers give a node the variables of all its jobs. A task gets its own alone.
func TestVariables_OfOtherTasksAreRejected(t *testing.T) {
	for _, path := range []string{
		"nomad/jobs/other", "nomad/jobs/j/g/db", "app/db", "nomad/jobs/j@prod", "nomad",
	} {
		withAnswers(t, reading(`{{ nomadVar "`+path+`" }}`), func(t *testing.T, fx *fixture, s *source) {
			h, _, err := fx.up()
			const want = "may not read the variable"
			if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v", path, err)
			}
			if s.following() != "" {
				t.Errorf("%s: the servers were asked", path)
			}
			_ = h.Down(t.Context())
		})
	}
}

// A task waits for its variable, says so without values, and gets the change of its template with a new
// value.
func TestVariables_AreWaitedForAndFollowed(t *testing.T) {
	text := `{{ with nomadVar "nomad/jobs/j" }}{{ .password }}{{ end }}`
	withAnswers(t, reading(text), func(t *testing.T, fx *fixture, s *source) {
		s.answers[varOfJob] = (*lookup.Variable)(nil)
		done := make(chan *control)
		var h *templates
		go func() {
			var c *control
			h, c = started(t, fx)
			done <- c
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		said := fx.said()
		if len(said) == 0 || !strings.HasSuffix(said[len(said)-1], "nomadVar nomad/jobs/j (it does not exist)") {
			t.Errorf("said %q", said)
		}

		s.set(varOfJob, stored("one"))
		c := <-done
		fx.CheckFile("web/local/a", "one")
		s.set(varOfJob, stored("two"))
		checkActs(t, c, time.Minute, 1)
		fx.CheckFile("web/local/a", "two")
		h.Stopped()
		if all := strings.Join(fx.said(), " "); strings.Contains(all, "one") || strings.Contains(all, "two") {
			t.Errorf("an event shows a value: %s", all)
		}
	})
}

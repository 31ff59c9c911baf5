package admit

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/cel-go/common/types"

	"berth/structs"
	"berth/structs/admission"
)

func onJob(expression string) *admission.Rule {
	return &admission.Rule{
		Name:       "r",
		On:         admission.OnJob,
		Mode:       admission.ModeDeny,
		Expression: expression,
		Message:    "no",
	}
}

func onVolume(expression string) *admission.Rule {
	r := onJob(expression)
	r.On = admission.OnVolume
	return r
}

// TestExpressions_SeeEachFieldOfTheJSON walks the structs of a job and of a volume: a field whose type the
// library does not know would be missing without a word.
func TestExpressions_SeeEachFieldOfTheJSON(t *testing.T) {
	for on, root := range map[string]reflect.Type{
		admission.OnJob:    reflect.TypeFor[structs.Job](),
		admission.OnVolume: reflect.TypeFor[structs.CSIVolume](),
	} {
		env, err := environments[on]()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[reflect.Type]bool{}
		fields := 0
		var walk func(reflect.Type)
		walk = func(of reflect.Type) {
			switch of.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map:
				walk(of.Elem())
				return
			case reflect.Struct:
			default:
				return
			}
			if seen[of] {
				return
			}
			seen[of] = true
			for _, f := range reflect.VisibleFields(of) {
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if f.Anonymous || !f.IsExported() || tag == "-" {
					continue
				}
				name := f.Name
				if tag != "" {
					name = tag
				}
				secret := slices.Contains(secretTypes, f.Type)
				_, found := env.CELTypeProvider().FindStructFieldType(typeName(of), name)
				if found == secret {
					t.Errorf("%s.%s: found is %t, and secret is %t", typeName(of), name, found, secret)
				}
				fields++
				if !secret {
					walk(f.Type)
				}
			}
		}
		walk(root)
		if fields < 20 {
			t.Errorf("%s: only %d fields", on, fields)
		}
	}
}

// sample is a job with values of all types that rules are likely to read.
func sample() *structs.Job {
	job := jobWith(10)
	job.Priority = 50
	job.Version = 3
	job.Meta = map[string]string{"owner": "a"}
	job.ConsulToken = "swordfish"
	job.Update = &structs.UpdateStrategy{Canary: 1}
	g := job.TaskGroups[0]
	g.Count = 2
	g.Volumes = map[string]*structs.VolumeRequest{
		"data": {Type: "csi", Source: "db", AccessMode: structs.CSISingleNodeWriter},
	}
	g.Tasks[0].KillTimeout = 5 * time.Second
	g.Tasks[0].Config["privileged"] = true
	g.Tasks[0].Config["ratio"] = 0.5
	g.Tasks[0].Config["labels"] = []any{map[string]any{"n": int64(1)}}
	return job
}

func TestEvaluate_ReadsTheObject(t *testing.T) {
	old := sample()
	old.Priority = 40
	timed := sample()
	timed.TaskGroups[0].MaxRunDuration = new(time.Duration)
	*timed.TaskGroups[0].MaxRunDuration = 5 * time.Second
	timed.TaskGroups[0].Services = []*structs.Service{nil}
	volume := &structs.CSIVolume{
		ID: "db", Namespace: "default",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			RequestedCapacityMin:  1 << 30,
			Secrets:               structs.Secrets{"password": "swordfish"},
			RequestedCapabilities: []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter}},
		},
	}
	caller := Caller{Accessor: "abc", Name: "ci", Policies: []string{"team-a"}}
	e := New()
	for expression, in := range map[string]Input{
		`job.ID == "large" && job.Namespace == "default"`: OfJob(sample(), nil),
		`old == null`:                                                                                  OfJob(sample(), nil),
		`old == null && volume.ID == "db"`:                                                             OfVolume(volume, nil),
		`!has(job.Update.Canary) || has(job.Update)`:                                                   OfJob(sample(), nil),
		`old != null && job.Priority > old.Priority`:                                                   OfJob(sample(), old),
		`job.Version >= 3 && job.Meta["owner"] == "a" && !("x" in job.Meta)`:                           OfJob(sample(), nil),
		`has(job.Update) && job.Update.Canary == 1 && !has(job.Periodic)`:                              OfJob(sample(), nil),
		`job.Periodic.Spec == ""`:                                                                      OfJob(sample(), nil),
		`job.TaskGroups[0].Tasks[0].Config.privileged == true`:                                         OfJob(sample(), nil),
		`job.TaskGroups[0].Tasks[0].Config.labels[0].n == 1`:                                           OfJob(sample(), nil),
		`job.TaskGroups[0].Tasks[0].Config.ratio < 1`:                                                  OfJob(sample(), nil),
		`job.TaskGroups.all(g, g.Tasks.all(t, !has(t.Config.pid_mode)))`:                               OfJob(sample(), nil),
		`job.TaskGroups[0].Volumes["data"].AccessMode == "single-node-writer"`:                         OfJob(sample(), nil),
		`job.TaskGroups[0].Tasks[0].KillTimeout < duration("1m")`:                                      OfJob(sample(), nil),
		`job.TaskGroups[0].MaxRunDuration == duration("5s") && has(job.TaskGroups[0].MaxRunDuration)`:  OfJob(timed, nil),
		`job.TaskGroups[0].MaxRunDuration == duration("0s") && !has(job.TaskGroups[0].MaxRunDuration)`: OfJob(sample(), nil),
		`job.TaskGroups[0].Services[0].CheckRestart.Grace == duration("0s")`:                           OfJob(timed, nil),
		`!has(job.TaskGroups[0].Services[0].CheckRestart.Grace)`:                                       OfJob(timed, nil),
		`size(job.TaskGroups[0].Scaling.Policy) == 0`:                                                  OfJob(timed, nil),
		`has(job.TaskGroups[0].Tasks[0].Config) && !has(job.TaskGroups[0].Networks)`:                   OfJob(timed, nil),
		`job.TaskGroups[0].Tasks.map(t, t.Resources.MemoryMB).all(m, m <= 256)`:                        OfJob(sample(), nil),
		`caller.Accessor == "abc" && caller.Name == "ci" && !caller.Management`:                        OfJob(sample(), nil),
		`"team-a" in caller.Policies`:                                                                  OfJob(sample(), nil),
		`volume.RequestedCapacityMin <= 1073741824 && volume.OnNodeLoss == ""`:                         OfVolume(volume, nil),
		`volume.RequestedCapabilities.all(c, c.AccessMode.startsWith("single-node"))`:                  OfVolume(volume, nil),
		`old.RequestedCapacityMin == volume.RequestedCapacityMin`:                                      OfVolume(volume, volume),
	} {
		rule := onJob(expression)
		rule.On = in.On
		in.Caller = caller
		out := e.Evaluate(t.Context(), rule, in)
		if !out.Holds || out.Fault != nil || out.Cost == 0 {
			t.Errorf("%s: got %+v, want it to hold", expression, out)
		}
	}
}

func TestCheck_TellsThePlaceOfAFault(t *testing.T) {
	e := New()
	for _, c := range []struct {
		rule *admission.Rule
		want string
	}{
		{onJob("job.TaskGroups.all(g,\n  g.Cuont == 1)"), "line 2, column 4: undefined field 'Cuont'"},
		{onJob("jb.ID == 'x'"), "line 1, column 1: undeclared reference to 'jb'"},
		{onJob("job.ID =="), "line 1, column 10"},
		{onJob("job.Priority + 1"), "is of type int; expected bool"},
		{onJob("job.ID == 1"), "found no matching overload"},
		{onJob("job.TaskGroups[0].MaxRunDuration == 5"), "found no matching overload"},
		{onJob("job.TaskGroups[0].Tasks[0].Config == 5"), "found no matching overload"},
		{onJob("volume.ID == 'x'"), "undeclared reference to 'volume'"},
		{onVolume("volume.Secrets == {}"), "undefined field 'Secrets'"},
		{onVolume("volume.SealedSecrets == null"), "undefined field 'SealedSecrets'"},
		{onJob("job.ConsulToken == ''"), "undefined field 'ConsulToken'"},
		{onJob("job.ID.replace('a', 'b') == ''"), "undeclared reference to 'replace'"},
		{onJob("namespace == 'x'"), "reserved identifier: namespace"},
		{onJob(strings.Repeat("(", 3000)), "recursion limit"},
		{onJob("true" + strings.Repeat("||1<2", 660)), "node"},
		{onJob("job.ID.matches('(a{30}){30}')"), "write a{2}"},
		{onJob("job.ID.matches('" + strings.Repeat("a?", 600) + "')"), "regex"},
		{onJob(ofBytes(admission.MaxExpression + 1)), "within the bounds"},
		{onJob("job.Indexes == null"), "undefined field 'Indexes'"},
		// The estimate of a text, and of bytes, is larger than that of a list.
		{onJob(loops(`a.Name == b.Name`, 4)), "fewer loops"},
		{onJob(loops(`job.Payload == job.Payload`, 4)), "fewer loops"},
		{&admission.Rule{On: "node", Expression: "true"}, "within the bounds"},
		{onJob("job.TaskGroups.all(a, job.TaskGroups.all(b, job.TaskGroups.all(c, job.TaskGroups.all(d, " +
			"a.Name != b.Name || c.Name == d.Name))))"), "fewer loops"},
	} {
		err := e.Check(c.rule)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %v, want %q", c.rule.Expression, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "line 0") || strings.Contains(err.Error(), "line -1")) {
			t.Errorf("%.60q: a place that is none: %v", c.rule.Expression, err)
		}
	}
	for _, expression := range []string{
		"job.TaskGroups.all(g, g.Tasks.all(t, g.Services.all(s, s.Name != t.Name)))",
		loops(`a.Name == b.Name`, 2),
		ofBytes(admission.MaxExpression),
	} {
		err := e.Check(onJob(expression))
		if err != nil {
			t.Errorf("%.60q: %v", expression, err)
		}
	}
}

// loops returns three loops within each other, with a term that is there several times.
func loops(term string, times int) string {
	terms := strings.Repeat(term+" || ", times-1) + term
	return "job.TaskGroups.all(a, job.TaskGroups.all(b, job.TaskGroups.all(c, " + terms + ")))"
}

// ofBytes returns an expression with so many bytes.
func ofBytes(n int) string {
	const frame = "true || '' == ''"
	return strings.Replace(frame, "''", "'"+strings.Repeat("x", n-len(frame))+"'", 1)
}

func TestFieldName_IsThatOfTheJSON(t *testing.T) {
	type Embedded struct{}
	type fields struct {
		Embedded
		Plain   int
		Empty   int `json:",omitempty"`
		Named   int `json:"other,omitempty"`
		Dash    int `json:"-"`
		Secret  structs.Secret
		Secrets structs.Secrets
		Sealed  *structs.Sealed
	}
	want := map[string]string{"Plain": "Plain", "Empty": "Empty", "Named": "other"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[fields]()) {
		if got := fieldName(f); got != want[f.Name] {
			t.Errorf("%s: got %q, want %q", f.Name, got, want[f.Name])
		}
	}
}

// TestAddSpecial_LeavesOutWhatTheJSONLacks has a type that contains itself.
func TestAddSpecial_LeavesOutWhatTheJSONLacks(t *testing.T) {
	type fields struct {
		Next   *fields
		Value  any
		Hidden any `json:"-"`
		hidden any
		Number int
	}
	known := map[string]map[string]*types.FieldType{}
	addSpecial(known, reflect.TypeFor[fields]())
	all := known["admit.fields"]
	if len(known) != 1 || len(all) != 1 || all["Value"] == nil {
		t.Errorf("got %v", known)
	}
	_ = fields{}.hidden
}

// TestCelType_TellsTheTypeOfEachField has the types that only the runtime knows.
func TestCelType_TellsTheTypeOfEachField(t *testing.T) {
	for of, want := range map[reflect.Type]*types.Type{
		reflect.TypeFor[any]():              types.DynType,
		reflect.TypeFor[[]any]():            types.NewListType(types.DynType),
		reflect.TypeFor[map[string]any]():   types.NewMapType(types.StringType, types.DynType),
		reflect.TypeFor[[]map[string]any](): types.NewListType(types.NewMapType(types.StringType, types.DynType)),
	} {
		if got := celType(of); !got.IsExactType(want) {
			t.Errorf("%s: got %s, want %s", of, got, want)
		}
	}
}

// pairs costs the square of the number of groups.
const pairs = `job.TaskGroups.all(a, job.TaskGroups.all(b, a.Name != "" && b.Name != ""))`

// In virtual time no computing reaches the bound of its time first, however slow the machine is.
func TestEvaluate_StopsAtTheBoundOfItsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := New().Evaluate(t.Context(), onJob(pairs), OfJob(jobWith(5000), nil))
		if out.Holds || out.Fault == nil || out.Cost > MaxCost+1000 ||
			!strings.Contains(out.Fault.Error(), "costs more than 250000 steps") {
			t.Errorf("got %+v, want an end at the bound", out)
		}
	})
}

func TestEvaluate_EndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rules := []*admission.Rule{onJob(pairs)}
	_, err := New().Decide(ctx, rules, OfJob(jobWith(1000), nil))
	if !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestEvaluate_ShowsNoValueOfTheObject(t *testing.T) {
	job := sample()
	job.Meta["port"] = "swordfish"
	for expression, want := range map[string]string{
		`int(job.Meta["port"]) > 0`:                            "does not fit the expression",
		`job.TaskGroups[0].Tasks[1].Config.privileged == true`: "no such key: privileged",
		`job.TaskGroups[7].Count > 0`:                          "index out of bounds: 7",
	} {
		out := New().Evaluate(t.Context(), onJob(expression), OfJob(job, nil))
		if out.Holds || out.Fault == nil || !strings.Contains(out.Fault.Error(), want) ||
			strings.Contains(out.Fault.Error(), "swordfish") {
			t.Errorf("%s: got %v, want %q", expression, out.Fault, want)
		}
	}
}

func TestEngine_EvaluatesForManyAtOnce(t *testing.T) {
	e := New()
	job := sample()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rule := onJob(`job.Priority == 50 && size(job.TaskGroups) == 1`)
			if i%2 == 0 {
				rule = onJob(`job.TaskGroups.all(g, g.Count == 2)`)
			}
			out := e.Evaluate(t.Context(), rule, OfJob(job, job))
			if !out.Holds {
				t.Error(out.Fault)
			}
		})
	}
	wg.Wait()
}

// TestEngine_KeepsEachCompiledExpression has one text that compiles for one object and not for the other.
func TestEngine_KeepsEachCompiledExpression(t *testing.T) {
	e := New()
	for range 2 {
		for rule, compiles := range map[*admission.Rule]bool{
			onJob(`job.ID == ""`): true, onVolume(`job.ID == ""`): false, onJob(`job.ID == "x"`): true,
		} {
			err := e.Check(rule)
			if (err == nil) != compiles {
				t.Errorf("%s on a %s: got %v", rule.Expression, rule.On, err)
			}
		}
	}
	if e.compiled.Len() != 3 {
		t.Errorf("the engine keeps %d expressions, want 3", e.compiled.Len())
	}

	first := e.compile(onJob(`job.ID == ""`)).program
	if first == nil || e.compile(onJob(`job.ID == ""`)).program != first {
		t.Error("an expression is compiled again")
	}
}

func TestOfJob_HasNoOldJobForANewOne(t *testing.T) {
	in := OfJob(sample(), nil)
	if in.Old != nil || in.On != admission.OnJob || in.Namespace != "default" || in.ID != "large" {
		t.Errorf("got %+v", in)
	}
}

func TestOfVolume_HasNoSecret(t *testing.T) {
	v := &structs.CSIVolume{
		ID: "db", Namespace: "team",
		CSIVolumeSpec: structs.CSIVolumeSpec{Secrets: structs.Secrets{"password": "swordfish"}},
	}
	in := OfVolume(v, v)
	if in.On != admission.OnVolume || in.Namespace != "team" || in.ID != "db" {
		t.Errorf("got %+v", in)
	}
	for name, object := range map[string]any{"the new": in.Object, "the stored": in.Old} {
		if object.(*structs.CSIVolume).Secrets["password"] == "swordfish" {
			t.Errorf("%s volume has its secret", name)
		}
	}
}

func TestEvaluate_TellsOfACallerThatHasGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := New().Evaluate(ctx, onJob(pairs), OfJob(jobWith(2000), nil))
	if !structs.IsKind(out.Fault, structs.KindTimeout) || out.Cost > 50*checkEach {
		t.Errorf("got %+v, want a timeout after few steps", out)
	}
}

// TestTexts_AreBounded has a rule and an object with names as long as a request may bring.
func TestTexts_AreBounded(t *testing.T) {
	long := strings.Repeat("x", 3*structs.MaxReason)
	err := New().Check(onJob(strings.Repeat("jb.ID == '' || ", 200) + "true"))
	if err == nil || len(err.Error()) > structs.MaxReason+100 {
		t.Errorf("the faults of an expression: got %v", err)
	}

	job := sample()
	job.ID = long
	job.Meta["key"] = long
	out := New().Evaluate(t.Context(), onJob(`job.Meta[job.Meta["key"]] == ""`), OfJob(job, nil))
	if out.Fault == nil || len(out.Fault.Error()) > structs.MaxReason+100 {
		t.Errorf("the fault of an evaluation: got %v", out.Fault)
	}
	line := Line(onJob("false"), OfJob(job, nil), Outcome{})
	if len(line) > structs.MaxQuoted+200 {
		t.Errorf("the line has %d bytes", len(line))
	}
}

package explain

import (
	"strings"
	"testing"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
)

const prod = "prod"

// inNamespace is a volume whose creation fails, and a job that waits for it, in a namespace of their own.
func inNamespace(t *testing.T) *schedtest.Fleet {
	f := schedtest.New(t, 1)
	schedtest.Do(f, namespace.Apply, &cluster.NamespaceApplyRequest{
		Definition:   &cluster.Namespace{Name: prod},
		WriteOptions: f.Now(),
	})
	f.Volume("vol", inState(structs.VolumeCreating, nil), func(v *structs.CSIVolume) { v.Namespace = prod })
	row := csi.Volume(f.Store.Read(), prod, "vol")
	write := f.Now()
	write.Namespace = prod
	schedtest.Do(f, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "vol",
		Op:           "create",
		RowIndex:     row.CreateIndex,
		Err:          failure(f, "the backend does not answer"),
		WriteOptions: write,
	})
	j := schedtest.Job("web", structs.JobService, 1, usesVolume(structs.CSISingleNodeWriter))
	j.Namespace = prod
	schedtest.Do(f, state.JobRegister, &structs.JobRegisterRequest{
		Job: j,
		Eval: &structs.Evaluation{
			ID:          "eval-web",
			JobID:       "web",
			Namespace:   prod,
			TriggeredBy: structs.TriggerJobRegister,
			Status:      structs.EvalPending,
		},
		WriteOptions: write,
	})
	f.Schedule()
	return f
}

func TestRemedies_NameTheNamespace(t *testing.T) {
	f := inNamespace(t)
	tx := f.Store.Read()
	_, reasons := Job(View{Tx: tx, Now: f.Clock}, state.Job(tx, prod, "web"))
	text := structs.WhyText(reasons)
	text += remedyOf(volumeFilter, &structs.Job{Namespace: prod}, nil, tx)
	for _, want := range []string{
		"berth volume status -namespace prod VOLUME",
		"berth volume retry -namespace prod vol",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// A shell reads the ID of an object as one word, whatever characters it has.
func TestRemedies_QuoteForTheShell(t *testing.T) {
	for got, want := range map[string]string{
		command(structs.DefaultNamespace, "job stop", "a;id"):    "berth job stop 'a;id'",
		command("p$1", "volume retry", "vol[0]"):                 "berth volume retry -namespace 'p$1' 'vol[0]'",
		csi.DetachCommand(structs.DefaultNamespace, "v[0]", "n"): `berth volume detach -force -reason "it is off" 'v[0]' n`,
	} {
		if got != want {
			t.Errorf("the command is %s, want %s", got, want)
		}
	}
}

// Each command on an object of a namespace is made by command, which names it.
func TestRemedies_OfTheMapNameNoNamespacedObject(t *testing.T) {
	for filter, remedy := range remedies {
		for _, object := range []string{"job", "alloc", "eval", "deployment", "volume"} {
			if strings.Contains(remedy, "berth "+object+" ") {
				t.Errorf("%s: %s", filter, remedy)
			}
		}
	}
}

func TestNoNode_HasARemedy(t *testing.T) {
	for nodes := range 2 {
		f := schedtest.New(t, nodes)
		x := newExplainer(View{Tx: f.Store.Read(), Now: f.Clock})
		if r := x.noNode(); r.Remedy == "" {
			t.Errorf("with %d nodes: %q has no remedy", nodes, r.Text)
		}
	}
}

package state_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/admission"
)

// admissionStore is a database, and the index of its last entry.
type admissionStore struct {
	db    *mvcc.DB
	index uint64
}

func newAdmissionStore() *admissionStore {
	return &admissionStore{db: mvcc.Open(&schema.All), index: 10}
}

func (s *admissionStore) put(r *admission.Rule) error {
	s.index++
	return s.db.Write(s.index, func(tx *mvcc.WriteTx) error {
		return state.AdmissionRulePut(tx, &admission.RulePutRequest{Rule: r})
	})
}

func (s *admissionStore) remove(name string) error {
	s.index++
	return s.db.Write(s.index, func(tx *mvcc.WriteTx) error {
		return state.AdmissionRuleDelete(tx, &admission.RuleDeleteRequest{Name: name})
	})
}

func admissionRule(name string) *admission.Rule {
	return &admission.Rule{
		Name:       name,
		On:         admission.OnJob,
		Mode:       admission.ModeDeny,
		Expression: "of any language",
		Message:    "m",
	}
}

func TestAdmissionRules_AreStoredReplacedAndDeleted(t *testing.T) {
	s := newAdmissionStore()
	for _, name := range []string{"b", "a", "b"} {
		err := s.put(admissionRule(name))
		if err != nil {
			t.Fatal(err)
		}
	}
	names := ""
	for r := range state.AdmissionRules(s.db.Read()) {
		names += r.Name
	}
	if names != "ab" {
		t.Errorf("got the rules %q, want ab", names)
	}
	if faults := admissionFaults(s); len(faults) != 0 {
		t.Error(faults)
	}

	err := s.remove("a")
	tx := s.db.Read()
	if err != nil || state.AdmissionRule(tx, "a") != nil || state.AdmissionRule(tx, "b") == nil {
		t.Errorf("after the deletion: %v", err)
	}
	if err := s.remove("a"); !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("got %v, want not-found", err)
	}
}

func admissionFaults(s *admissionStore) []string {
	c := schema.NewReport(s.db.Read())
	state.CheckAdmissionRules(c)
	return c.Faults()
}

func TestAdmissionRulePut_RejectsWhatIsNotWithinTheBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for want, change := range map[string]func(r *admission.Rule){
		"no valid name":                     func(r *admission.Rule) { r.Name = "a b" },
		"no valid name: expected 1":         func(r *admission.Rule) { r.Name = "" },
		"no valid name: expected 1 to 128":  func(r *admission.Rule) { r.Name = long(129) },
		`On is "node"`:                      func(r *admission.Rule) { r.On = "node" },
		`Mode is "log"`:                     func(r *admission.Rule) { r.Mode = "log" },
		"Expression has 0 bytes":            func(r *admission.Rule) { r.Expression = "" },
		"Expression has 4097 bytes":         func(r *admission.Rule) { r.Expression = long(4097) },
		"Message has 0 bytes":               func(r *admission.Rule) { r.Message = "" },
		"Message has 513 bytes":             func(r *admission.Rule) { r.Message = long(513) },
		"Description has 513 bytes":         func(r *admission.Rule) { r.Description = long(513) },
		"Namespaces has 65 patterns":        func(r *admission.Rule) { r.Namespaces = make([]string, 65) },
		"Namespaces has a pattern of 0":     func(r *admission.Rule) { r.Namespaces = []string{""} },
		"Namespaces has a pattern of 129 b": func(r *admission.Rule) { r.Namespaces = []string{long(129)} },
	} {
		r := admissionRule("r")
		change(r)
		err := newAdmissionStore().put(r)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := newAdmissionStore().put(nil); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("no rule: got %v", err)
	}
}

func TestAdmissionRulePut_BoundsTheNumberOfRules(t *testing.T) {
	s := newAdmissionStore()
	for i := range admission.MaxRules {
		err := s.put(admissionRule(fmt.Sprint("r", i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.put(admissionRule("more")); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("one more: got %v, want a precondition", err)
	}
	if err := s.put(admissionRule("r7")); err != nil {
		t.Errorf("a replaced one: %v", err)
	}
}

func TestCheckAdmissionRules_FindsARuleOutsideItsBounds(t *testing.T) {
	s := newAdmissionStore()
	err := s.db.Write(20, func(tx *mvcc.WriteTx) error {
		schema.AdmissionRules.Put(tx, &admission.Rule{Name: "r"})
		return nil
	})
	if faults := admissionFaults(s); err != nil || len(faults) != 1 || !strings.Contains(faults[0], `"r"`) {
		t.Errorf("got %v and the faults %v", err, faults)
	}
}

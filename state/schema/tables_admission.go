package schema

import (
	"berth/internal/mvcc"
	"berth/structs/admission"
)

// AdmissionRules has the admission rules by name.
var AdmissionRules = mvcc.NewTable("admission_rules", func(r *admission.Rule) mvcc.Key {
	return mvcc.KeyOf(r.Name)
})

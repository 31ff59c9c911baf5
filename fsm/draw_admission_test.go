package fsm

import (
	"maps"

	"berth/state"
	"berth/structs/admission"
)

// admissionDraws draws entries about few rules.
var admissionDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"AdmissionRulePut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return AdmissionRulePut.Encode(&admission.RulePutRequest{
			Rule: &admission.Rule{
				Name:       d.of("r1", "r2", "not valid"),
				On:         d.of(admission.OnJob, admission.OnVolume),
				Mode:       d.of(admission.ModeDeny, admission.ModeWarn),
				Expression: d.of("true", "false"),
				Message:    "m",
			},
			WriteOptions: d.now(),
		})
	},
	"AdmissionRuleDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return AdmissionRuleDelete.Encode(&admission.RuleDeleteRequest{Name: d.of("r1", "r2")})
	},
}

func init() { maps.Copy(draws, admissionDraws) }

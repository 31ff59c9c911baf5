package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The questions about the code of an answer of a CSI plugin that are none of package nodecalls, which alone
// decides about repeats.
const (
	byMeaning = "what the answer says of the volume, of the plugin or of its space"
	byOutcome = "whether the call may still take effect, or may have had one"
	byToken   = "whether the token of a page of a list is worth nothing any more"
	byRecord  = "it keeps the code in a row, or compares two records"
	byRemedy  = "the words of an error for people"
	byPolicy  = "it asks nodecalls for the repeat"
	byStaging = "a volume whose staging the plugin has lost is staged again, once, before the answer counts"
	byNextAsk = "how soon the next question comes, where no call is repeated"
)

// askedCodes are the functions that look at such a code.
var askedCodes = map[string]string{
	"client/csi/csihooks.isNewlyFull":                 byMeaning,
	"client/csi/csihooks.isUnanswered":                byMeaning,
	"client/csi/csihooks.needsConfirmation":           byPolicy,
	"client/csi/csihooks.volumesHook.reportExpansion": byRecord,
	"client/csi/csihooks.inlineHook.publish":          byRemedy,
	"client/csi/registry.Parks":                       byPolicy,
	"client/csi/upkeep.Poller.askHealth":              byNextAsk,
	"client/csi/upkeep.Poller.askUse":                 byNextAsk,
	"client/csi/registry.SuspectGuard.check":          byRecord,
	"client/csi/volumes.Manager.endCall":              byOutcome,
	"client/csi/volumes.repeatOfMount":                byPolicy,
	"client/csi/volumes.volumeWork.callPlugin":        byMeaning,
	"client/csi/volumes.volumeWork.publishVolume":     byStaging,
	"client/csi/volumes.callController":               byOutcome,
	"client/csi/volumes.endpoints.create":             byMeaning,
	"client/csi/volumes.endpoints.createGroup":        byMeaning,
	"client/csi/volumes.endpoints.createSnapshot":     byMeaning,
	"client/csi/volumes.endpoints.expand":             byMeaning,
	"client/csi/volumes.endpoints.nodeExpand":         byOutcome,
	"csi.answer.lost":                                 byOutcome,
	"csi.var":                                         byOutcome,
	"endpoints/csi.place.explain":                     byToken,
	"endpoints/csi.place.restart":                     byToken,
	"endpoints/csi.groupRemedy":                       byRemedy,
	"server/control.Deps.operationError":              byRecord,
	"server/control.asUncertain":                      byOutcome,
	"server/control.reaperLoop.isReported":            byRecord,
	"server/control/volumes.DriftLoop.isMissing":      byMeaning,
	"server/control/volumes.listPages":                byToken,
	"server/control.exhaustedError":                   byMeaning,
	"server/control.rejectedByPlugin":                 byOutcome,
	"server/control.givesUp":                          byPolicy,
	"server/control/volumes.healthPass.askFor":        byNextAsk,
	"server/nodeconn.TryNext":                         byPolicy,
	"state.VolumeOutcome":                             byMeaning,
	"state/csi.mayExist":                              byOutcome,
	"state/csi.noteExhausted":                         byMeaning,
	"state/csi/snapshot.object.recordUncut":           byOutcome,
}

// TestCodes_OnePackageDecidesAboutRepeats holds the functions that look at the code of an answer of a plugin.
func TestCodes_OnePackageDecidesAboutRepeats(t *testing.T) {
	found := map[string]bool{}
	eachDecl(t, func(name string, d ast.Decl) {
		if strings.HasPrefix(name, "structs/nodecalls.") || strings.HasPrefix(name, "plugins/") {
			return
		}
		if asksCode(name, d) {
			found[name] = true
		}
	})
	checkExceptions(t, "a look at the code of an answer of a plugin, which nodecalls.RepeatOf decides about",
		found, slices.Sorted(maps.Keys(askedCodes)))
}

// asksCode reports whether a declaration looks at the code of an error, or names one.
func asksCode(name string, d ast.Decl) bool {
	for n := range ast.Preorder(d) {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		of, ok := s.X.(*ast.Ident)
		if !ok {
			continue
		}
		switch {
		case of.Name == "structs" && (s.Sel.Name == "CodeOf" || strings.HasPrefix(s.Sel.Name, "CSICode")),
			of.Name == "csi" && s.Sel.Name == "Code",
			of.Name == "codes" && strings.HasPrefix(name, "csi.") && s.Sel.Name != "Code":
			return true
		}
	}
	return false
}

func TestAsksCode_FindsEachForm(t *testing.T) {
	for statement, want := range map[string]bool{
		"_ = structs.CodeOf(err) == x":            true,
		"_ = csi.Code(err) == x":                  true,
		"_ = e.Code == structs.CSICodeAborted":    true,
		"_ = []codes.Code{codes.Unavailable}":     true,
		"var _ codes.Code":                        false,
		"_ = structs.KindOf(err) == kind":         false,
		"_ = &structs.OperationError{Code: code}": false,
	} {
		if got := asksCode("csi.f", parseBody(t, statement).Decls[0]); got != want {
			t.Errorf("%s: %v, want %v", statement, got, want)
		}
	}
}

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/structs"
	"berth/structs/storage"
)

// ModificationReasons explains a change of mutable parameters that is pending, or that the plugin has
// rejected. It returns nil if there is none. The values are not shown.
func ModificationReasons(v *structs.CSIVolume, now time.Time) []*structs.Reason {
	failed := v.LastError
	if failed != nil && failed.Op != storage.OpModify {
		failed = nil
	}
	pending := storage.PendingParameters(v)
	switch {
	case len(pending) > 0:
		r := withFailure(fmt.Sprintf("the plugin is to change %s of volume %s",
			strings.Join(slices.Sorted(maps.Keys(pending)), ", "), v.ID), failed, now)
		r.Remedy = "if this lasts: berth plugin status " + structs.ShellWord(v.PluginID)
		if failed != nil {
			r.Remedy = "to try now: " + structs.CommandLine(v.Namespace, "volume retry", v.ID)
		}
		r.Because = unknownOutcome(v.Call, now)
		return []*structs.Reason{r}
	case failed != nil && v.State == structs.VolumeReady:
		r := withFailure(fmt.Sprintf("the plugin has rejected the last change of the mutable parameters of "+
			"volume %s, which keeps those that it has", v.ID), failed, now)
		r.Remedy = "correct mutable_parameters in its file and run it again: " +
			structs.CommandLine(v.Namespace, "volume register", "FILE")
		return []*structs.Reason{r}
	}
	return nil
}

// describe adds the last failure, nil for none, to the text of a reason.
func withFailure(text string, failed *structs.OperationError, now time.Time) *structs.Reason {
	if failed == nil {
		return &structs.Reason{Text: text}
	}
	times := fmt.Sprintf(" (failures: %d, the last %s ago", failed.Attempts, age(failed.Time, now))
	if failed.RetryTime > 0 {
		wait := max(0, time.Unix(0, failed.RetryTime).Sub(now)).Round(time.Second)
		times += fmt.Sprintf("; the next attempt in %s", wait)
	}
	fact := text + ": " + failed.Message
	return &structs.Reason{Text: fact + times + ")", Fact: fact}
}

// unknownOutcome explains a call whose outcome is not known, nil if there is none.
func unknownOutcome(call *structs.CSICall, now time.Time) []*structs.Reason {
	if call == nil {
		return nil
	}
	fact := fmt.Sprintf("the outcome of the call to %s it, sent to node %s, is unknown; only that node repeats it", call.Op, structs.ShortID(call.NodeID))
	return []*structs.Reason{{Text: fact + fmt.Sprintf(" (sent %s ago)", age(call.Time, now)), Fact: fact}}
}

func age(nanos int64, now time.Time) time.Duration {
	return max(0, now.Sub(time.Unix(0, nanos))).Round(time.Second)
}

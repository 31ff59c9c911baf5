package structs

import (
	"encoding/json"
	"time"
)

// The HTTP dialect has some times as text, where rows and msgpack have UnixNano. The methods below translate.

func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

type plainEvaluation Evaluation

type evaluationJSON struct {
	plainEvaluation
	Wait      time.Duration
	WaitUntil time.Time
}

// MarshalJSON writes WaitUntil as a time, and adds Wait, as the dialect has them.
func (e Evaluation) MarshalJSON() ([]byte, error) { return json.Marshal(e.JSONForm()) }

// JSONForm has the times as the dialect has them.
func (e Evaluation) JSONForm() any {
	return &evaluationJSON{
		plainEvaluation: plainEvaluation(e),
		Wait:            e.Wait(),
		WaitUntil:       timeOf(e.WaitUntil),
	}
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (e *Evaluation) UnmarshalJSON(b []byte) error {
	var v evaluationJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*e = Evaluation(v.plainEvaluation)
	e.WaitUntil = nanosOf(v.WaitUntil)
	return nil
}

type plainCSIInfo CSIInfo

type csiInfoJSON struct {
	plainCSIInfo
	UpdateTime time.Time
}

// MarshalJSON writes UpdateTime as a time, as the dialect has it.
func (i CSIInfo) MarshalJSON() ([]byte, error) { return json.Marshal(i.JSONForm()) }

// JSONForm has the time as the dialect has it.
func (i CSIInfo) JSONForm() any { return i.toJSON() }

func (i CSIInfo) toJSON() *csiInfoJSON {
	return &csiInfoJSON{
		plainCSIInfo: plainCSIInfo(i),
		UpdateTime:   timeOf(i.UpdateTime),
	}
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (i *CSIInfo) UnmarshalJSON(b []byte) error {
	var v csiInfoJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*i = CSIInfo(v.plainCSIInfo)
	i.UpdateTime = nanosOf(v.UpdateTime)
	return nil
}

// instanceJSON is CSIPluginInstance without the methods of the embedded CSIInfo, which omit its other fields.
type instanceJSON struct {
	Kind   CSIKind
	NodeID string
	csiInfoJSON
	Indexes
}

// MarshalJSON writes every field of the instance, times as in CSIInfo.
func (i CSIPluginInstance) MarshalJSON() ([]byte, error) { return json.Marshal(i.JSONForm()) }

// JSONForm has every field of the instance, times as in CSIInfo.
func (i CSIPluginInstance) JSONForm() any {
	return &instanceJSON{
		Kind:        i.Kind,
		NodeID:      i.NodeID,
		csiInfoJSON: *i.toJSON(),
		Indexes:     i.Indexes,
	}
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (i *CSIPluginInstance) UnmarshalJSON(b []byte) error {
	var v instanceJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	i.Kind = v.Kind
	i.NodeID = v.NodeID
	i.Indexes = v.Indexes
	i.CSIInfo = CSIInfo(v.plainCSIInfo)
	i.UpdateTime = nanosOf(v.csiInfoJSON.UpdateTime)
	return nil
}

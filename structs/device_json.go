package structs

import "encoding/json"

// DefaultAffinityWeight is the weight of an affinity without one.
const DefaultAffinityWeight = 50

type plainRequestedDevice RequestedDevice

// UnmarshalJSON reads a demand. In the dialect a count that is left out is 1, while 0 is no count.
func (r *RequestedDevice) UnmarshalJSON(b []byte) error {
	v := plainRequestedDevice{Count: 1}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*r = RequestedDevice(v)
	return nil
}

type plainAffinity Affinity

// UnmarshalJSON reads an affinity. In the dialect a weight that is left out is 50, while 0 is no weight.
func (a *Affinity) UnmarshalJSON(b []byte) error {
	v := plainAffinity{Weight: DefaultAffinityWeight}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*a = Affinity(v)
	return nil
}

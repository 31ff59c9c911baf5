package structs

import "encoding/json"

type plainTaskGroup TaskGroup

// UnmarshalJSON reads a group. In the dialect a count that is left out is 1, while 0 is a count like any
// other.
func (g *TaskGroup) UnmarshalJSON(b []byte) error {
	v := plainTaskGroup{Count: 1}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*g = TaskGroup(v)
	return nil
}

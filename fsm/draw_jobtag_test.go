package fsm

import (
	"maps"

	"berth/state"
	"berth/structs"
)

// tagDraws draws entries about few versions and tags, so that they meet.
var tagDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"JobTag": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return JobTag.Encode(&structs.JobTagRequest{
			JobID:        d.job(),
			JobVersion:   uint64(d.upTo(4)),
			TagName:      d.of("golden", "other", ""),
			Description:  d.of("", "d"),
			WriteOptions: d.now(),
		})
	},
	"JobUntag": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return JobUntag.Encode(&structs.JobUntagRequest{
			JobID:        d.job(),
			TagName:      d.of("golden", "other"),
			WriteOptions: d.now(),
		})
	},
}

func init() { maps.Copy(draws, tagDraws) }

// Package quota has the specifications of quotas and the requests about them, in the dialect's form, and the
// arithmetic of their use: amounts by dimension, the bounds of a specification, and the first bound that a
// change exceeds. The servers and the scheduler decide with the same functions.
package quota

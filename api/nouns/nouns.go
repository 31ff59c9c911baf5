// Package nouns links the packages below api that have the routes of one noun each. A program that serves
// the API imports it: a package that is not linked declares no routes. It is apart: those packages import
// api.
package nouns

import (
	_ "berth/api/access"
	_ "berth/api/agents"
	_ "berth/api/events"
	_ "berth/api/jobs"
	_ "berth/api/volumes"
)

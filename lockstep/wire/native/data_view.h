// The dispatcher's view as the messages of `DataStatus`. Pure.
#pragma once

#include "lockstep/data/dispatch/view.h"
#include "lockstep/wire/native/data_status_messages.h"

namespace lockstep::wire::native {

DataStatusReply FromDataView(const dispatch::View& view);

}  // namespace lockstep::wire::native

-- The requests of back ends. BENCH_SCENE is one of:
--   login    begin, and settle with the ticket of any earlier response: two requests
--   guess    the same with wrong passwords, each for another account from another address
--   begin    only begin, each for another account from another address
--   stopped  begin for one account from one address, which is delayed
--   event    an event, each of another account from another address
--   exceeded an event of one account above its limit
local scene = os.getenv("BENCH_SCENE")
local token = os.getenv("BENCH_TOKEN")
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. token

local threads = 0
function setup(thread)
   thread:set("first", threads)
   threads = threads + 1
end

local tickets, n = {}, 0

local function attempt()
   n = n + 1
   if scene == "stopped" or scene == "exceeded" then
      return '{"account":"no-such-user","address":"198.18.0.1"}'
   end
   if scene == "login" then -- 2,500 users for each thread, who log in again
      local user = first * 2500 + n % 2500
      return string.format('{"account":"person-%d","address":"198.18.%d.%d"}', user, user / 250 % 250, user % 250 + 1)
   end
   local user = first * 8000000 + n * 7919 % 8000000
   return string.format('{"account":"person-%d","address":"%d.%d.%d.1"}',
      user, 11 + user / 65536 % 80, user / 256 % 256, user % 256)
end

function request()
   local ticket = table.remove(tickets)
   if ticket then
      local outcome = scene == "login" and "succeeded" or "failed"
      local body = '{"ticket":"' .. ticket .. '","outcome":"' .. outcome .. '"}'
      return wrk.format(nil, "/v1/attempts/settle", nil, body)
   end
   if scene == "event" or scene == "exceeded" then
      return wrk.format(nil, "/v1/events/password-reset", nil, attempt())
   end
   return wrk.format(nil, "/v1/attempts", nil, attempt())
end

if scene == "login" or scene == "guess" then
   function response(status, headers, body)
      local ticket = status == 200 and string.match(body, '"ticket":"([^"]+)"')
      if ticket then
         tickets[#tickets + 1] = ticket
      end
   end
end

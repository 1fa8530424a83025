Rails.application.routes.draw do
  devise_for :users
  root to: "home#index"
  get "account", to: "home#account"
end
